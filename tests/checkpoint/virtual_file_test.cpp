// The oracle is libhdf5, used like in other tools.
#include <hdf5.h>

#include <cmath>
#include <cstring>

#include "checkpoint/export.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

class VirtualFile : public CheckpointTest {
 protected:
  CheckpointId id{7, 1, 1};
  fs::path directory = directory_of(run_dir, id);
};

struct Seen {
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

// Reads with the file's type, so that libhdf5 converts nothing.
Seen read_dataset(const fs::path& path, const std::string& name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  EXPECT_GE(file, 0);
  const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  EXPECT_GE(dataset, 0) << name;
  const hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
  Seen seen;
  std::vector<hsize_t> shape(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, shape.data(), nullptr);
  seen.shape.assign(shape.begin(), shape.end());
  seen.bytes.resize(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)) * H5Tget_size(type));
  EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, seen.bytes.data()), 0) << name;
  H5Sclose(space);
  H5Tclose(type);
  H5Dclose(dataset);
  H5Fclose(file);
  return seen;
}

void expect_whole(const fs::path& directory, const State& state) {
  for (const Tensor& tensor : state) {
    const Seen seen = read_dataset(directory / "whole.h5", tensor.spec.name);
    EXPECT_EQ(seen.shape, tensor.spec.shape) << tensor.spec.name;
    EXPECT_TRUE(std::ranges::equal(seen.bytes, tensor.bytes)) << tensor.spec.name;
  }
}

TEST_F(VirtualFile, ShowsWholeTensors_WhereverTheirRowsLie) {
  const OwnedState owned(mixed_spec());
  for (const int shards : {1, 3, 16}) {
    id.generation = static_cast<std::uint64_t>(shards);
    write_checkpoint(run_dir, id, owned.state, shards);
    expect_whole(directory_of(run_dir, id), owned.state);
  }
}

TEST_F(VirtualFile, MovesWithItsCheckpoint) {
  const OwnedState owned(mixed_spec());
  write_checkpoint(run_dir, id, owned.state, 3);
  fs::rename(directory, run_dir / "elsewhere");
  expect_whole(run_dir / "elsewhere", owned.state);
}

TEST_F(VirtualFile, AShardThatIsMissing_ReadsAsNotANumberAndNotAsZero) {
  OwnedState owned({{"weight", Dtype::kFloat32, {300000, 3}, Role::kParameter}});
  const Manifest manifest = write_checkpoint(run_dir, id, owned.state, 2);
  fs::remove(directory / manifest.shards[1].file);
  const Seen seen = read_dataset(directory / "whole.h5", "weight");
  float last = 0;
  std::memcpy(&last, &seen.bytes[seen.bytes.size() - sizeof last], sizeof last);
  EXPECT_TRUE(std::isnan(last));
}

TEST_F(VirtualFile, WithoutIt_ACheckpointIsWhole) {
  const OwnedState owned(small_spec());
  const Manifest manifest = write_checkpoint(run_dir, id, owned.state, 2);
  std::ofstream(directory / "whole.h5") << "rubbish";
  EXPECT_TRUE(load(directory));
  fs::remove(directory / "whole.h5");
  EXPECT_TRUE(load(directory));
  EXPECT_TRUE(verify(directory, manifest));
  EXPECT_TRUE(commit(run_dir, manifest)) << "asked again";
}

TEST_F(VirtualFile, ThatCannotBeWritten_DoesNotKeepACheckpointFromItsCommit) {
  const OwnedState owned(small_spec());
  const Manifest manifest = write_shards(run_dir, id, owned.state, 2);
  fs::create_directories(directory / "whole.h5" / "in the way");
  const Status committed = commit(run_dir, manifest);
  ASSERT_TRUE(committed) << committed.error().line();
  EXPECT_TRUE(load(directory));
  EXPECT_EQ(files_in(directory), (std::vector<std::string>{"manifest.json", manifest.shards[0].file,
                                                           manifest.shards[1].file, "whole.h5"}));
  ASSERT_TRUE(discard(run_dir, id));
  EXPECT_FALSE(fs::exists(directory));
}

}  // namespace
}  // namespace rekindle::checkpoint
