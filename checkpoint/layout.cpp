#include "checkpoint/layout.hpp"

#include <limits>

#include "base/text.hpp"
#include "checkpoint/h5_driver.hpp"
#include "checkpoint/h5_handle.hpp"

namespace rekindle::checkpoint {
namespace {

// Large datasets are aligned, for mmap and direct I/O by tools; padding is never more than the data.
constexpr std::uint64_t kAlignment = std::uint64_t{1} << 20;

tl::unexpected<Error> hdf5_error(const std::string& what) {
  const std::string detail = hdf5_detail();
  return fail(str("cannot lay out an HDF5 file: ", what, detail.empty() ? "" : ": ", detail));
}

Handle make_space(const std::vector<std::int64_t>& shape, bool scalar) {
  if (scalar) return {H5Screate(H5S_SCALAR), H5Sclose};
  const std::vector<hsize_t> dimensions(shape.begin(), shape.end());
  return {H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), nullptr), H5Sclose};
}

Status add_attribute(hid_t object, const LayoutAttribute& attribute) {
  const Handle space = make_space({static_cast<std::int64_t>(attribute.values.size())}, attribute.scalar);
  const Handle made(
      H5Acreate2(object, attribute.name.c_str(), H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  if (!space.valid() || !made.valid()) return hdf5_error(attribute.name);
  if (!attribute.values.empty() && H5Awrite(made.get(), H5T_NATIVE_INT64, attribute.values.data()) < 0) {
    return hdf5_error(attribute.name);
  }
  return {};
}

Status lay_out_contiguous(hid_t creation, const std::string& name) {
  // No fill values, because libhdf5 would write them before the data.
  if (H5Pset_layout(creation, H5D_CONTIGUOUS) < 0 || H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY) < 0 ||
      H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER) < 0) {
    return hdf5_error(name);
  }
  return {};
}

Status lay_out_virtual(hid_t creation, const LayoutDataset& dataset) {
  // A missing part reads as NaN, not as zeros.
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  const bool real = dataset.dtype == Dtype::kFloat32 || dataset.dtype == Dtype::kFloat64 ||
                    dataset.dtype == Dtype::kBfloat16 || dataset.dtype == Dtype::kFloat16;
  if (real && H5Pset_fill_value(creation, H5T_NATIVE_DOUBLE, &nothing) < 0) return hdf5_error(dataset.name);
  for (const RowsElsewhere& rows : dataset.elsewhere) {
    std::vector<std::int64_t> shape = dataset.shape;
    shape[0] = rows.rows;
    const Handle whole = make_space(dataset.shape, false), part = make_space(shape, false);
    std::vector<hsize_t> first(shape.size(), 0);
    first[0] = static_cast<hsize_t>(rows.first_row);
    const std::vector<hsize_t> count(shape.begin(), shape.end());
    if (H5Sselect_hyperslab(whole.get(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr) < 0 ||
        H5Pset_virtual(creation, whole.get(), rows.file.c_str(), dataset.name.c_str(), part.get()) < 0) {
      return hdf5_error(dataset.name);
    }
  }
  return {};
}

// A scalar has no rows to map, but is in one file.
Status add_link(hid_t file, const LayoutDataset& dataset, hid_t links) {
  const std::string& name = dataset.name;
  if (H5Lcreate_external(dataset.elsewhere.front().file.c_str(), name.c_str(), file, name.c_str(), links,
                         H5P_DEFAULT) < 0) {
    return hdf5_error(name);
  }
  return {};
}

Result<std::uint64_t> add_dataset(hid_t file, const LayoutDataset& dataset) {
  const Handle type(make_type(dataset.dtype), H5Tclose);
  const Handle space = make_space(dataset.shape, dataset.shape.empty());
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  // No timestamps, so that equal states make equal files.
  if (!type.valid() || !space.valid() || H5Pset_char_encoding(links.get(), H5T_CSET_UTF8) < 0 ||
      H5Pset_obj_track_times(creation.get(), 0) < 0) {
    return hdf5_error(dataset.name);
  }
  const bool elsewhere = !dataset.elsewhere.empty();
  if (elsewhere && dataset.shape.empty()) {
    REKINDLE_CHECK(add_link(file, dataset, links.get()));
    return std::uint64_t{0};
  }
  REKINDLE_CHECK(elsewhere ? lay_out_virtual(creation.get(), dataset)
                           : lay_out_contiguous(creation.get(), dataset.name));
  const Handle made(H5Dcreate2(file, dataset.name.c_str(), type.get(), space.get(), links.get(),
                               creation.get(), H5P_DEFAULT),
                    H5Dclose);
  if (!made.valid()) return hdf5_error(dataset.name);
  for (const LayoutAttribute& attribute : dataset.attributes)
    REKINDLE_CHECK(add_attribute(made.get(), attribute));
  if (elsewhere || H5Sget_simple_extent_npoints(space.get()) == 0) return std::uint64_t{0};
  const haddr_t offset = H5Dget_offset(made.get());
  if (offset == HADDR_UNDEF) return hdf5_error(dataset.name);
  return std::uint64_t{offset};
}

Result<Handle> create_file(hid_t driver, MemoryFile& file) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (!use_memory_driver(access.get(), driver, file) ||
      H5Pset_alignment(access.get(), kAlignment, kAlignment) < 0 ||
      H5Pset_file_locking(access.get(), false, true) < 0) {
    return hdf5_error("file properties");
  }
  const hid_t created = H5Fcreate("memory", H5F_ACC_TRUNC, H5P_DEFAULT, access.get());
  if (created < 0) return hdf5_error("new file");
  return Result<Handle>(tl::in_place, created, H5Fclose);
}

}  // namespace

Result<Layout> lay_out(const std::vector<LayoutDataset>& datasets,
                       const std::vector<LayoutAttribute>& attributes) {
  const auto lock = lock_hdf5();
  const Handle driver(register_memory_driver(), H5FDunregister);
  MemoryFile memory;
  auto file = create_file(driver.get(), memory);
  if (!file) return forward_error(file.error());
  std::vector<std::uint64_t> offsets;
  for (const LayoutAttribute& attribute : attributes) REKINDLE_CHECK(add_attribute(file->get(), attribute));
  for (const LayoutDataset& dataset : datasets) {
    REKINDLE_TRY(const std::uint64_t offset, add_dataset(file->get(), dataset));
    offsets.push_back(offset);
  }
  if (!file->close()) return hdf5_error("close");
  return Layout{std::move(memory.bytes), memory.end, std::move(offsets)};
}

}  // namespace rekindle::checkpoint
