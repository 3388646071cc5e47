// Files of other programs: read bit for bit, or refused with a reason; never a crash.
#include "checkpoint/tensor_file.hpp"

#include <hdf5.h>
#include <sys/stat.h>

#include <cstring>

#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

// What a conversion or a comparison of numbers would lose.
constexpr std::uint32_t kOddBits[] = {
    0x7fc00000,  // a quiet NaN
    0x7f800001,  // a signalling one
    0xffc12345,  // a negative one with a payload
    0x80000000,  // -0
    0x00000001,  // the smallest denormal
    0x807fffff,  // a large denormal
    0x7f800000,  // infinity
    0xff7fffff,  // the largest negative number
};

StateSpec odd_spec() {
  StateSpec spec = mixed_spec();
  spec.push_back({"odd", Dtype::kFloat32, {2, 4}, Role::kParameter});
  return spec;
}

OwnedState odd_state() {
  OwnedState owned(odd_spec());
  std::memcpy(owned.storage.back().data(), kOddBits, sizeof kOddBits);
  return owned;
}

void expect_same(const Tensors& read, const State& state) {
  ASSERT_EQ(read.state.size(), state.size());
  for (const Tensor& tensor : state) {
    const auto found = std::ranges::find_if(
        read.state, [&tensor](const Tensor& each) { return each.spec.name == tensor.spec.name; });
    ASSERT_NE(found, read.state.end()) << tensor.spec.name;
    EXPECT_EQ(found->spec.dtype, tensor.spec.dtype);
    EXPECT_EQ(found->spec.shape, tensor.spec.shape);
    EXPECT_TRUE(std::ranges::equal(found->bytes, tensor.bytes)) << tensor.spec.name;
  }
}

class TensorFile : public CheckpointTest {
 protected:
  fs::path path = run_dir / "file.safetensors";

  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
  void write(const std::string& header, const std::string& data) const {
    const std::uint64_t size = header.size();
    write(std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + data);
  }
  void refused(const std::string& why) const {
    const auto read = read_safetensors(path);
    ASSERT_FALSE(read) << why;
    EXPECT_EQ(read.error().code, ExitCode::kConfig);
    EXPECT_NE(read.error().what.find(why), std::string::npos) << why << "\nsaid: " << read.error().line();
    EXPECT_NE(read.error().what.find(path.string()), std::string::npos) << read.error().line();
  }
};

void refused_h5(const fs::path& file, const std::string& why) {
  const auto read = read_h5(file);
  ASSERT_FALSE(read) << why;
  EXPECT_EQ(read.error().code, ExitCode::kConfig);
  EXPECT_NE(read.error().what.find(why), std::string::npos) << why << "\nsaid: " << read.error().line();
}

TEST_F(TensorFile, Safetensors_ComeBackBitForBit) {
  const OwnedState owned = odd_state();
  ASSERT_TRUE(write_tensors(path, owned.state));
  const auto read = read_safetensors(path);
  ASSERT_TRUE(read) << read.error().line();
  expect_same(*read, owned.state);
}

TEST_F(TensorFile, H5_ComesBackBitForBit) {
  const OwnedState owned = odd_state();
  const fs::path file = run_dir / "file.h5";
  ASSERT_TRUE(write_tensors(file, owned.state));
  const auto read = read_h5(file);
  ASSERT_TRUE(read) << read.error().line();
  expect_same(*read, owned.state);
}

TEST_F(TensorFile, OtherOrderMetadataAndEmptyTensors_AreRead) {
  write(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"__metadata__":{"by":"somebody"},)"
        R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
        R"("none":{"dtype":"F32","shape":[0,9],"data_offsets":[1,1]}}   )",
        "xyz");
  const auto read = read_safetensors(path);
  ASSERT_TRUE(read) << read.error().line();
  ASSERT_EQ(read->state.size(), 3U);
  EXPECT_EQ(read->state[0].spec.name, "a");
  EXPECT_EQ(read->state[2].spec.name, "b");
  EXPECT_EQ(read->state[2].bytes[1], std::byte{'z'});
}

TEST_F(TensorFile, FieldsThatTheFormatDoesNotName_AreNotLookedAt) {
  write(
      R"({"a":{"by":"me","n":[1,"x"],"o":{"shape":9},"dtype":"U8","z":null,"shape":[3],"data_offsets":[0,3]}})",
      "xyz");
  const auto read = read_safetensors(path);
  ASSERT_TRUE(read) << read.error().line();
  EXPECT_EQ(read->state.at(0).spec.shape, std::vector<std::int64_t>{3});
  write(R"({"a":{"shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[0],"data_offsets":[3,3]}})",
        "xyz");
  refused("tensor a: its dtype is missing");
  write(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{}})", "xyz");
  refused("tensor b: its dtype is missing");
}

// Any part of a dataset, which libhdf5 gives out in boxes only.
TEST_F(TensorFile, AnH5Dataset_IsReadFromAnyElementToAnyOther) {
  const StateSpec spec = {{"t", Dtype::kInt32, {3, 2, 5, 2}, Role::kParameter},
                          {"v", Dtype::kInt32, {7}, Role::kParameter}};
  const OwnedState owned(spec);
  const fs::path file = run_dir / "file.h5";
  ASSERT_TRUE(write_tensors(file, owned.state));
  const Status used = with_h5(file, [&](const TensorSource& source) -> Status {
    for (std::size_t tensor = 0; tensor < 2; ++tensor) {
      const auto& bytes = owned.storage[tensor];
      for (std::size_t begin = 0; begin < bytes.size(); begin += 8) {
        for (std::size_t end = begin; end <= bytes.size(); end += 4) {
          std::vector<std::byte> out(end - begin);
          REKINDLE_CHECK(source.read(tensor, begin, out));
          EXPECT_TRUE(std::ranges::equal(out, std::span(bytes).subspan(begin, end - begin)))
              << begin << " " << end;
        }
      }
    }
    return {};
  });
  EXPECT_TRUE(used) << used.error().line();
}

TEST_F(TensorFile, AnH5FileThatClaimsMoreThanItHolds_IsRefused) {
  const fs::path file = run_dir / "claims.h5";
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t shape[1] = {hsize_t{1} << 30}, chunk[1] = {1 << 20};
  const auto write_claim = [&] {
    const hid_t made = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, shape, nullptr);
    H5Dclose(H5Dcreate2(made, "w", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Sclose(space);
    H5Fclose(made);
  };
  H5Pset_chunk(creation, 1, chunk);
  write_claim();
  refused_h5(file, "dataset 'w': it claims 4294967296 bytes, which the file cannot hold");
  const hsize_t large_chunk[1] = {hsize_t{1} << 27};
  H5Pset_chunk(creation, 1, large_chunk);
  write_claim();
  refused_h5(file, "dataset 'w': its chunks have more than 256 MiB");
  H5Pclose(creation);
}

TEST_F(TensorFile, ATensorNamedAsTheMetadata_IsNotWrittenOverThem) {
  const StateSpec spec = {{"weight", Dtype::kFloat32, {2}, Role::kParameter},
                          {"__metadata__", Dtype::kFloat32, {2}, Role::kParameter}};
  const OwnedState owned(spec);
  const Status status = write_tensors(path, owned.state);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ExitCode::kConfig);
  EXPECT_NE(status.error().what.find("cannot be named __metadata__"), std::string::npos)
      << status.error().line();
  EXPECT_TRUE(files_in(run_dir).empty());
  EXPECT_TRUE(write_tensors(run_dir / "file.h5", owned.state)) << "a name like any other there";
}

TEST_F(TensorFile, MetadataThatAreNoMapOfStrings_AreRefused) {
  for (const char* metadata :
       {R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})", R"({"by":1})", R"("somebody")", "[]", "null"}) {
    write(str(R"({"__metadata__":)", metadata, R"(,"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})"),
          "xyz");
    refused("its __metadata__ is not a map of strings");
  }
}

TEST_F(TensorFile, Rubbish_IsRefused) {
  refused("cannot open");
  for (const std::string text : {"", "short", "\x89HDF\r\n\x1a\n and more than that of rubbish"}) {
    write(text);
    refused("cannot be used: ");
  }
  write("[]", "");
  refused("not a JSON object");
  write("{\"a\":", "");
  refused("not a JSON object");
  write(std::string("{\"\xff\":1}"), "");
  refused("not a JSON object");
  write("{} trailing", "");
  refused("not a JSON object");
}

TEST_F(TensorFile, AHeaderThatIsTooLargeOrTooDeep_IsRefused) {
  for (const std::uint64_t size : {std::uint64_t{3}, std::uint64_t{1} << 30, UINT64_MAX, UINT64_MAX - 7}) {
    write(std::string(reinterpret_cast<const char*>(&size), sizeof size) + "{}");
    refused("its header would have");
  }
  write(std::string(1000000, '['), "");
  refused("not a JSON object");
  write(R"({"a":)" + std::string(100000, '[') + std::string(100000, ']') + "}", "");
  refused("not a JSON object");
}

TEST_F(TensorFile, ATruncatedFile_IsRefusedWhereverItEnds) {
  const OwnedState owned(small_spec());
  ASSERT_TRUE(write_tensors(path, owned.state));
  const std::string whole = *read_text(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    EXPECT_FALSE(read_safetensors(path)) << size;
  }
  write(whole + "x");
  refused("bytes of data");
}

TEST_F(TensorFile, OffsetsThatOverlapOrLeaveTheFile_AreRefused) {
  const auto tensor = [](const std::string& name, int begin, int end) {
    return str("\"", name, R"(":{"dtype":"U8","shape":[)", end - begin, R"(],"data_offsets":[)", begin, ",",
               end, "]}");
  };
  write("{" + tensor("a", 0, 2) + "," + tensor("b", 1, 3) + "}", "xyz");
  refused("tensor b overlaps another, or there is a gap");
  write("{" + tensor("a", 0, 1) + "," + tensor("b", 2, 3) + "}", "xyz");
  refused("there is a gap");
  write("{" + tensor("a", 0, 4) + "}", "xyz");
  refused("it has 3 bytes of data, its header says 4");
  write("{" + tensor("a", 0, 3) + "," + tensor("a", 0, 3) + "}", "xyz");
  refused("tensor a is in it twice");
  for (const char* entry :
       {R"("dtype":"U8","shape":[3],"data_offsets":[0,2])",
        R"("dtype":"U8","shape":[3],"data_offsets":[3,0])",
        R"("dtype":"U8","shape":[-3],"data_offsets":[0,3])",
        R"("dtype":"U8","shape":[3.0],"data_offsets":[0,3])",
        R"("dtype":"U8","shape":[3],"data_offsets":[0,3,3])", R"("dtype":"U8","shape":[3])",
        R"("dtype":"U8","shape":3,"data_offsets":[0,3])", R"("shape":[3],"data_offsets":[0,3])",
        R"("dtype":"F16","shape":[1],"data_offsets":[0,2])",
        R"("dtype":"F32","shape":[4611686018427387904,4,3],"data_offsets":[0,3])",
        R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,3])",
        R"("dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[0,0])",
        R"("dtype":"F32","shape":[0,4611686018427387905],"data_offsets":[0,0])"}) {
    write(str(R"({"a":{)", entry, "}}"), "xyz");
    refused("tensor a: ");
  }
  write(R"({"a/b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "xyz");
  refused("tensor a/b: ");
}

TEST_F(TensorFile, AnyFlippedBitOfAHeader_IsReadOrRefused) {
  const OwnedState owned(small_spec());
  ASSERT_TRUE(write_tensors(path, owned.state));
  const std::string good = *read_text(path);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, good.data(), sizeof header_bytes);
  int refusals = 0;
  for (std::size_t i = 0; i < sizeof header_bytes + header_bytes; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      write(bad);
      if (!read_safetensors(path)) ++refusals;
    }
  }
  EXPECT_GT(refusals, 1000);
}

TEST_F(TensorFile, NeitherDirectoriesNorPipes_AreWaitedFor) {
  path = run_dir / "pipe.safetensors";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  refused("is not a regular file");
  path = run_dir;
  refused("is a directory");
}

// Six numbers, as libhdf5 writes them.
constexpr float kNumbers[6] = {1, -2, 3, 0.5, -0.25, 4};
void write_dataset(hid_t place, const char* name, hid_t type, hid_t creation) {
  const hsize_t shape[2] = {3, 2};
  const hid_t space = H5Screate_simple(2, shape, nullptr);
  const hid_t dataset = H5Dcreate2(place, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, kNumbers), 0);
  H5Dclose(dataset);
  H5Sclose(space);
}
void write_h5_file(const fs::path& path, hid_t type, hid_t creation) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  write_dataset(file, "weight", type, creation);
  H5Fclose(file);
}

TEST_F(TensorFile, NumbersOfAnotherKindInAnH5File_AreRefused) {
  const fs::path file = run_dir / "foreign.h5";
  write_h5_file(file, H5T_IEEE_F32LE, H5P_DEFAULT);
  ASSERT_TRUE(read_h5(file));
  const hid_t half = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(half, 15, 10, 5, 0, 10);
  H5Tset_size(half, 2);
  H5Tset_ebias(half, 15);
  for (const hid_t type : {H5T_IEEE_F32BE, H5T_IEEE_F64BE, H5T_STD_I64BE, half}) {
    write_h5_file(file, type, H5P_DEFAULT);
    refused_h5(file, "dataset 'weight': its type is not known here: convert it to little-endian float32");
  }
  H5Tclose(half);
}

TEST_F(TensorFile, AnH5FileWithGroups_IsRefused) {
  const fs::path path_of_file = run_dir / "groups.h5";
  const hid_t file = H5Fcreate(path_of_file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t group = H5Gcreate2(file, "layer", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  write_dataset(group, "weight", H5T_IEEE_F32LE, H5P_DEFAULT);
  H5Gclose(group);
  H5Fclose(file);
  refused_h5(path_of_file, "dataset 'layer': it is no dataset");
}

TEST_F(TensorFile, AnH5FileWithLibhdf5sOwnFilters_IsReadBitForBit) {
  const fs::path file = run_dir / "filtered.h5";
  const hsize_t chunk[2] = {2, 2};
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(creation, 2, chunk);
  H5Pset_shuffle(creation);
  H5Pset_deflate(creation, 9);
  H5Pset_fletcher32(creation);
  write_h5_file(file, H5T_IEEE_F32LE, creation);
  H5Pclose(creation);
  const auto read = read_h5(file);
  ASSERT_TRUE(read) << read.error().line();
  ASSERT_EQ(read->state.size(), 1U);
  EXPECT_TRUE(std::ranges::equal(read->state[0].bytes, std::as_bytes(std::span(kNumbers))));
}

TEST_F(TensorFile, AnH5FileOfOtherThings_IsRefused) {
  refused_h5(run_dir / "none.h5", "there is no file");
  std::ofstream(run_dir / "rubbish.h5") << std::string(5000, 'x');
  refused_h5(run_dir / "rubbish.h5", "it is no HDF5 file");
  // What is in another file may be missing there, or be none of the reader's business.
  const CheckpointId id{1, 1, 1};
  write_checkpoint(run_dir, id, OwnedState(small_spec()).state, 2);
  refused_h5(directory_of(run_dir, id) / "whole.h5", "'steps' is a link to somewhere else");
  const StateSpec weights = {{"weight", Dtype::kFloat32, {5, 3}, Role::kParameter}};
  write_checkpoint(run_dir, {2, 1, 1}, OwnedState(weights).state, 2);
  refused_h5(directory_of(run_dir, {2, 1, 1}) / "whole.h5", "dataset 'weight': its data are in another file");
}

}  // namespace
}  // namespace rekindle::checkpoint
