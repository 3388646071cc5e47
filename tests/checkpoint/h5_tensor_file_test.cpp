// HDF5 files of other programs: read bit for bit, or refused with a reason; never a crash.
#include <hdf5.h>

#include "tensor_file_fixture.hpp"

namespace rekindle::checkpoint {
namespace {

void refused_h5(const fs::path& file, const std::string& why) {
  const auto read = read_h5(file);
  ASSERT_FALSE(read) << why;
  EXPECT_EQ(read.error().code, ExitCode::kConfig);
  EXPECT_NE(read.error().what.find(why), std::string::npos) << why << "\nsaid: " << read.error().line();
}

TEST_F(TensorFile, H5_ComesBackBitForBit) {
  const OwnedState owned = odd_state();
  const fs::path file = run_dir / "file.h5";
  ASSERT_TRUE(write_tensors(file, owned.state));
  const auto read = read_h5(file);
  ASSERT_TRUE(read) << read.error().line();
  expect_same(*read, owned.state);
}

// Any part of a dataset, although libhdf5 reads only boxes.
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

// Six numbers in a file written by libhdf5.
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
  for (const hid_t type : {H5T_IEEE_F32BE, H5T_IEEE_F64BE, H5T_STD_I64BE, H5T_STD_I16LE}) {
    write_h5_file(file, type, H5P_DEFAULT);
    refused_h5(file, "dataset 'weight': its type is not known here: convert it to little-endian float32");
  }
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
  // Data in another file may be missing, or must not be read.
  const CheckpointId id{1, 1, 1};
  write_checkpoint(run_dir, id, OwnedState(small_spec()).state, 2);
  refused_h5(directory_of(run_dir, id) / "whole.h5", "'steps' is a link to somewhere else");
  const StateSpec weights = {{"weight", Dtype::kFloat32, {5, 3}, Role::kParameter}};
  write_checkpoint(run_dir, {2, 1, 1}, OwnedState(weights).state, 2);
  refused_h5(directory_of(run_dir, {2, 1, 1}) / "whole.h5", "dataset 'weight': its data are in another file");
}

}  // namespace
}  // namespace rekindle::checkpoint
