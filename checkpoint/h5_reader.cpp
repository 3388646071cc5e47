#include <array>

#include "base/text.hpp"
#include "checkpoint/h5_handle.hpp"
#include "checkpoint/manifest_check.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxDatasets = 100000;
constexpr std::uint64_t kMaxDeflation = 1100;  // zlib's best is 1032:1; the rest is rubbish or never written

tl::unexpected<Error> hdf5_error(const std::string& what) {
  const std::string detail = hdf5_detail();
  return fail(str(what, detail.empty() ? "" : ": ", detail));
}

struct Links {
  std::vector<std::string> names;
  std::string refused;  // why the listing was broken off
};

herr_t take_link(hid_t, const char* name, const H5L_info_t* info, void* out) {
  auto& links = *static_cast<Links*>(out);
  // It may lead to any file that its reader may read.
  if (info->type != H5L_TYPE_HARD) links.refused = str("'", name, "' is a link to somewhere else");
  if (links.names.size() == kMaxDatasets) links.refused = "it has too many datasets";
  if (!links.refused.empty()) return 1;
  links.names.emplace_back(name);
  return 0;
}

Result<Dtype> dtype_of(hid_t dataset) {
  const Handle type(H5Dget_type(dataset), H5Tclose);
  for (const Dtype dtype : kDtypes) {
    const Handle known(make_type(dtype), H5Tclose);
    if (type.valid() && H5Tequal(type.get(), known.get()) > 0) return dtype;
  }
  return fail("its type is not known here: convert it to little-endian float32");
}

Result<std::vector<std::int64_t>> shape_of(hid_t dataset) {
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const H5S_class_t kind = space.valid() ? H5Sget_simple_extent_type(space.get()) : H5S_NO_CLASS;
  if (kind == H5S_SCALAR) return std::vector<std::int64_t>{};
  const int rank = kind == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space.get()) : -1;
  if (rank < 0) return fail("it has no shape");
  std::vector<hsize_t> dimensions(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), dimensions.data(), nullptr);
  std::vector<std::int64_t> shape;
  for (const hsize_t dimension : dimensions) {
    if (dimension > hsize_t{INT64_MAX}) return fail("it has an impossible shape");
    shape.push_back(static_cast<std::int64_t>(dimension));
  }
  return shape;
}

// Data that lie in other files: what is missing there would read as zeros.
Status check_storage(hid_t dataset) {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  if (!creation.valid()) return hdf5_error("its storage is not described");
  if (H5Pget_layout(creation.get()) == H5D_VIRTUAL || H5Pget_external_count(creation.get()) != 0)
    return fail("its data are in another file: of a checkpoint, give the directory itself");
  return {};
}

Status read_dataset(hid_t file, const std::string& name, std::uint64_t& room, Tensors& tensors) {
  const Handle object(H5Oopen(file, name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object.valid()) return hdf5_error("it cannot be opened");
  if (H5Iget_type(object.get()) != H5I_DATASET) return fail("it is no dataset");
  REKINDLE_CHECK(check_storage(object.get()));
  TensorSpec spec{name, Dtype::kFloat32, {}, Role::kParameter};
  REKINDLE_TRY(spec.dtype, dtype_of(object.get()));
  REKINDLE_TRY(spec.shape, shape_of(object.get()));
  REKINDLE_CHECK(check_tensor(spec));
  if (spec.bytes() > room) return fail(str("it claims ", spec.bytes(), " bytes, which the file cannot hold"));
  room -= spec.bytes();
  const std::span<std::byte> out = tensors.add(spec);
  // As the type that is in the file, so that nothing is converted: a conversion may change a NaN.
  const Handle type(H5Dget_type(object.get()), H5Tclose);
  if (!out.empty() && H5Dread(object.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data()) < 0)
    return hdf5_error("it cannot be read");
  return {};
}

Result<Handle> open_file(const fs::path& path) {
  // No filters from wherever HDF5_PLUGIN_PATH points to: they are code.
  H5PLset_loading_state(0);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), false, true);
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
  if (file < 0) return hdf5_error("it is no HDF5 file");
  return Result<Handle>(tl::in_place, file, H5Fclose);
}

Result<Tensors> read_datasets(const fs::path& path, std::uint64_t file_bytes) {
  auto file = open_file(path);
  if (!file) return forward_error(file.error());
  Links links;
  if (H5Literate(file->get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, take_link, &links) < 0)
    return hdf5_error("its datasets cannot be listed");
  if (!links.refused.empty()) return fail(links.refused);
  Tensors tensors;
  std::uint64_t room = file_bytes * kMaxDeflation;
  for (const std::string& name : links.names) {
    if (Status read = read_dataset(file->get(), name, room, tensors); !read)
      return fail(str("dataset '", name, "': ", read.error().what));
  }
  return tensors;
}

}  // namespace

Result<Tensors> read_h5(const fs::path& path) {
  const auto lock = lock_hdf5();
  std::error_code code;
  if (!fs::is_regular_file(path, code))
    return fail(ExitCode::kConfig, str("there is no file ", path.string()),
                "give the path of a file that can be read");
  const std::uint64_t file_bytes = fs::file_size(path, code);
  auto tensors = read_datasets(path, code ? 0 : file_bytes);
  if (tensors) return tensors;
  return fail(ExitCode::kConfig, str(path.string(), " cannot be read: ", tensors.error().what),
              "its root group must hold datasets named as in a state dict, and nothing else");
}

}  // namespace rekindle::checkpoint
