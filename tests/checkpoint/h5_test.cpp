// The oracle is libhdf5, used like in other tools.
#include <hdf5.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/export.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

std::vector<std::string> link_names(hid_t file) {
  std::vector<std::string> names;
  H5Literate(
      file, H5_INDEX_NAME, H5_ITER_INC, nullptr,
      [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
        static_cast<std::vector<std::string>*>(out)->emplace_back(name);
        return 0;
      },
      &names);
  return names;
}

std::vector<std::int64_t> attribute(hid_t object, const char* name) {
  const hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
  const hid_t space = H5Aget_space(attribute);
  std::vector<std::int64_t> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  if (!values.empty()) {
    EXPECT_GE(H5Aread(attribute, H5T_NATIVE_INT64, values.data()), 0);
  }
  H5Sclose(space);
  H5Aclose(attribute);
  return values;
}

struct Dataset {
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  // in the native type of the same size
  std::uint64_t offset = 0;
};

hid_t native_type(Dtype dtype, hid_t dataset) {
  switch (dtype) {
    case Dtype::kFloat32:
      return H5Tcopy(H5T_NATIVE_FLOAT);
    case Dtype::kFloat64:
      return H5Tcopy(H5T_NATIVE_DOUBLE);
    case Dtype::kInt64:
      return H5Tcopy(H5T_NATIVE_INT64);
    case Dtype::kInt32:
      return H5Tcopy(H5T_NATIVE_INT32);
    case Dtype::kUint8:
      return H5Tcopy(H5T_NATIVE_UINT8);
    case Dtype::kBfloat16:
    case Dtype::kFloat16:
      return H5Dget_type(dataset);
  }
  return -1;
}

Dataset read_dataset(hid_t file, const TensorSpec& spec) {
  const hid_t dataset = H5Dopen2(file, spec.name.c_str(), H5P_DEFAULT);
  EXPECT_GE(dataset, 0) << spec.name;
  const hid_t space = H5Dget_space(dataset);
  Dataset out;
  std::vector<hsize_t> dimensions(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, dimensions.data(), nullptr);
  out.shape.assign(dimensions.begin(), dimensions.end());
  out.bytes.resize(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)) * bytes_of(spec.dtype));
  const hid_t type = native_type(spec.dtype, dataset);
  EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.bytes.data()), 0) << spec.name;
  out.offset = H5Dget_offset(dataset);
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(dataset);
  return out;
}

using H5 = CheckpointTest;

TEST_F(H5, LibHdf5_SeesNamesShapesAttributesAndValuesOfEveryShard) {
  const OwnedState owned(mixed_spec());
  const StateSpec spec = mixed_spec();
  const CheckpointId id{123, 1, 1};
  constexpr int kShards = 3;
  const Manifest manifest = write_checkpoint(run_dir, id, owned.state, kShards);
  for (int shard = 0; shard < kShards; ++shard) {
    const ShardEntry& entry = manifest.shards[static_cast<std::size_t>(shard)];
    const fs::path path = directory_of(run_dir, id) / entry.file;
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    EXPECT_EQ(attribute(file, "rekindle_format"), std::vector<std::int64_t>{2});
    EXPECT_EQ(attribute(file, "shard"), std::vector<std::int64_t>{shard});
    EXPECT_EQ(attribute(file, "shards"), std::vector<std::int64_t>{kShards});
    EXPECT_EQ(attribute(file, "step"), std::vector<std::int64_t>{123});
    std::vector<std::string> expected;
    for (const Slice& slice : part_of(spec, kShards, shard)) {
      const TensorSpec& tensor = spec[slice.tensor];
      expected.push_back(tensor.name);
      const Dataset dataset = read_dataset(file, tensor);
      std::vector<std::int64_t> shape = tensor.shape;
      if (!shape.empty()) shape[0] = slice.rows;
      EXPECT_EQ(dataset.shape, shape) << tensor.name;
      const auto bytes = owned.state[slice.tensor].bytes.subspan(
          static_cast<std::size_t>(slice.first_row) * tensor.row_bytes(), dataset.bytes.size());
      EXPECT_TRUE(std::ranges::equal(dataset.bytes, bytes)) << tensor.name;
      if (bytes.size() >= 1 << 20) {
        EXPECT_EQ(dataset.offset % (1 << 20), 0U) << tensor.name;
      }
      const hid_t object = H5Dopen2(file, tensor.name.c_str(), H5P_DEFAULT);
      EXPECT_EQ(attribute(object, "first_row"), std::vector<std::int64_t>{slice.first_row});
      EXPECT_EQ(attribute(object, "global_shape"), tensor.shape);
      H5Dclose(object);
    }
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(link_names(file), expected);
    H5Fclose(file);
  }
}

TEST_F(H5, Bfloat16_IsReadAsTheNumbersThatItMeans) {
  const StateSpec spec = {{"half", Dtype::kBfloat16, {4}, Role::kParameter}};
  OwnedState owned(spec);
  const float values[4] = {1.0F, -2.5F, 0x1.fep127F, 0x1p-126F};
  for (std::size_t i = 0; i < 4; ++i) {
    std::memcpy(&owned.storage[0][2 * i], reinterpret_cast<const char*>(&values[i]) + 2, 2);
  }
  const Manifest manifest = write_checkpoint(run_dir, {1, 1, 1}, owned.state, 1);
  const hid_t file = H5Fopen((directory_of(run_dir, {1, 1, 1}) / manifest.shards[0].file).c_str(),
                             H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "half", H5P_DEFAULT);
  float read[4] = {};
  ASSERT_GE(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read), 0);
  EXPECT_TRUE(std::ranges::equal(read, values));
  H5Dclose(dataset);
  H5Fclose(file);
}

TEST_F(H5, Float16_IsReadAsTheNumbersThatItMeans) {
  const StateSpec spec = {{"half", Dtype::kFloat16, {5}, Role::kBuffer}};
  OwnedState owned(spec);
  const std::uint16_t bits[5] = {0x3c00, 0xc100, 0x7bff, 0x0400, 0x0001};
  std::memcpy(owned.storage[0].data(), bits, sizeof bits);
  const Manifest manifest = write_checkpoint(run_dir, {1, 1, 1}, owned.state, 1);
  const hid_t file = H5Fopen((directory_of(run_dir, {1, 1, 1}) / manifest.shards[0].file).c_str(),
                             H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "half", H5P_DEFAULT);
  float read[5] = {};
  ASSERT_GE(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read), 0);
  EXPECT_TRUE(std::ranges::equal(read, std::array{1.0F, -2.5F, 65504.0F, 0x1p-14F, 0x1p-24F}));
  H5Dclose(dataset);
  H5Fclose(file);
}

TEST_F(H5, Export_HoldsWholeTensorsUnderTheirNames) {
  const OwnedState owned(mixed_spec());
  const CheckpointId id{5, 1, 1};
  write_checkpoint(run_dir, id, owned.state, 3);
  for (const bool with_optimizer : {false, true}) {
    const fs::path path = run_dir / "out.h5";
    const auto status = export_file(directory_of(run_dir, id), path,
                                    with_optimizer ? ExportContents::kWholeState : ExportContents::kModel);
    ASSERT_TRUE(status) << status.error().line();
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    std::vector<std::string> expected;
    for (const Tensor& tensor : owned.state) {
      if (tensor.spec.role == Role::kOptimizer && !with_optimizer) continue;
      expected.push_back(tensor.spec.name);
      const Dataset dataset = read_dataset(file, tensor.spec);
      EXPECT_EQ(dataset.shape, tensor.spec.shape);
      EXPECT_TRUE(std::ranges::equal(dataset.bytes, tensor.bytes)) << tensor.spec.name;
    }
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(link_names(file), expected);
    H5Fclose(file);
  }
  EXPECT_EQ(files_in(run_dir), (std::vector<std::string>{"checkpoints", "out.h5"}));
}

}  // namespace
}  // namespace rekindle::checkpoint
