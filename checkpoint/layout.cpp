#include "checkpoint/layout.hpp"

#include <mutex>

#include "base/text.hpp"
#include "checkpoint/h5_driver.hpp"

namespace rekindle::checkpoint {
namespace {

// Large datasets are aligned so that tools and direct I/O may map them; padding is never more than the data.
constexpr std::uint64_t kAlignment = std::uint64_t{1} << 20;

// Closes an HDF5 identifier with its own close function.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }
  bool close() { return close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

tl::unexpected<Error> hdf5_error(const std::string& what) {
  std::string detail;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_DOWNWARD,
      [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
        if (error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;  // the innermost stays
        return 0;
      },
      &detail);
  return fail(str("cannot lay out an HDF5 file: ", what, detail.empty() ? "" : ": ", detail));
}

// Brain float: the upper half of a float32. HDF5 converts it, h5py shows it as a float.
hid_t make_bfloat16() {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  if (type < 0) return type;
  if (H5Tset_fields(type, 15, 7, 8, 0, 7) < 0 || H5Tset_size(type, 2) < 0 || H5Tset_ebias(type, 127) < 0) {
    H5Tclose(type);
    return -1;
  }
  return type;
}

hid_t make_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return H5Tcopy(H5T_IEEE_F32LE);
    case Dtype::kFloat64:
      return H5Tcopy(H5T_IEEE_F64LE);
    case Dtype::kInt64:
      return H5Tcopy(H5T_STD_I64LE);
    case Dtype::kInt32:
      return H5Tcopy(H5T_STD_I32LE);
    case Dtype::kUint8:
      return H5Tcopy(H5T_STD_U8LE);
    case Dtype::kBfloat16:
      return make_bfloat16();
  }
  return -1;
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

Result<std::uint64_t> add_dataset(hid_t file, const LayoutDataset& dataset) {
  const Handle type(make_type(dataset.dtype), H5Tclose);
  const Handle space = make_space(dataset.shape, dataset.shape.empty());
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  // No fill values: they would be written once more than the data. No times: equal states make equal files.
  if (!type.valid() || !space.valid() || H5Pset_char_encoding(links.get(), H5T_CSET_UTF8) < 0 ||
      H5Pset_layout(creation.get(), H5D_CONTIGUOUS) < 0 ||
      H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY) < 0 ||
      H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER) < 0 ||
      H5Pset_obj_track_times(creation.get(), 0) < 0) {
    return hdf5_error(dataset.name);
  }
  const Handle made(H5Dcreate2(file, dataset.name.c_str(), type.get(), space.get(), links.get(),
                               creation.get(), H5P_DEFAULT),
                    H5Dclose);
  if (!made.valid()) return hdf5_error(dataset.name);
  for (const LayoutAttribute& attribute : dataset.attributes)
    REKINDLE_CHECK(add_attribute(made.get(), attribute));
  if (H5Sget_simple_extent_npoints(space.get()) == 0) return std::uint64_t{0};
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

// libhdf5 as Debian builds it is not thread-safe, and its state is one a process: so is the lock.
std::mutex& hdf5_lock() {
  static std::mutex lock;
  return lock;
}

}  // namespace

Result<Layout> lay_out(const std::vector<LayoutDataset>& datasets,
                       const std::vector<LayoutAttribute>& attributes) {
  const std::scoped_lock lock(hdf5_lock());
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors are values here, not stack traces on stderr
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
