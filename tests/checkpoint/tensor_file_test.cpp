// .safetensors files of other programs: read bit for bit, or refused with a reason; never a crash.
#include <sys/stat.h>

#include <cstring>

#include "tensor_file_fixture.hpp"

namespace rekindle::checkpoint {
namespace {

TEST_F(TensorFile, Safetensors_ComeBackBitForBit) {
  const OwnedState owned = odd_state();
  ASSERT_TRUE(write_tensors(path, owned.state));
  const auto read = read_safetensors(path);
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

// As PyTorch's register_buffer("mask", ...) has it. It is exported as U8.
TEST_F(TensorFile, BoolsAreBytes) {
  write(R"({"mask":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", std::string("\1\0\1", 3));
  const auto read = read_safetensors(path);
  ASSERT_TRUE(read) << read.error().line();
  EXPECT_EQ(read->state.at(0).spec.dtype, Dtype::kUint8);
  EXPECT_EQ(read->state.at(0).bytes[2], std::byte{1});
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
  refused("it has 3 bytes of data, its header has 4");
  write("{" + tensor("a", 0, 3) + "," + tensor("a", 0, 3) + "}", "xyz");
  refused("tensor a is listed twice");
  for (const char* entry :
       {R"("dtype":"U8","shape":[3],"data_offsets":[0,2])",
        R"("dtype":"U8","shape":[3],"data_offsets":[3,0])",
        R"("dtype":"U8","shape":[-3],"data_offsets":[0,3])",
        R"("dtype":"U8","shape":[3.0],"data_offsets":[0,3])",
        R"("dtype":"U8","shape":[3],"data_offsets":[0,3,3])", R"("dtype":"U8","shape":[3])",
        R"("dtype":"U8","shape":3,"data_offsets":[0,3])", R"("shape":[3],"data_offsets":[0,3])",
        R"("dtype":"U16","shape":[1],"data_offsets":[0,2])",
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

}  // namespace
}  // namespace rekindle::checkpoint
