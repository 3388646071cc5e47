#include <optional>

#include "base/text.hpp"
#include "checkpoint/h5_handle.hpp"
#include "checkpoint/manifest_check.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {
namespace {

constexpr std::size_t kMaxDatasets = 100000;

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

// Decompressed as a whole for each element of it, and kept in libhdf5's cache meanwhile.
constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{256} << 20;

Status check_chunks(hid_t dataset, std::size_t rank, Dtype dtype) {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  if (H5Pget_layout(creation.get()) != H5D_CHUNKED) return {};
  std::vector<hsize_t> shape(rank);
  if (H5Pget_chunk(creation.get(), static_cast<int>(rank), shape.data()) != static_cast<int>(rank))
    return hdf5_error("its chunks are not described");
  std::uint64_t bytes = bytes_of(dtype);
  for (const hsize_t dimension : shape) {
    if (dimension == 0 || bytes > kMaxChunkBytes / dimension)
      return fail(str("its chunks have more than ", kMaxChunkBytes >> 20, " MiB"));
    bytes *= dimension;
  }
  return {};
}

// To be closed with H5Dclose.
Result<hid_t> open_dataset(hid_t file, const std::string& name) {
  const Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  constexpr std::size_t kSlots = 12421;
  H5Pset_chunk_cache(access.get(), kSlots, kMaxChunkBytes, 1.0);
  // It might be of another kind, for which such access would be wrong.
  const Handle object(H5Oopen(file, name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object.valid()) return hdf5_error("it cannot be opened");
  if (H5Iget_type(object.get()) != H5I_DATASET) return fail("it is no dataset");
  const hid_t dataset = H5Dopen2(file, name.c_str(), access.get());
  if (dataset < 0) return hdf5_error("it cannot be opened");
  return dataset;
}

Result<TensorSpec> describe(hid_t file, const std::string& name) {
  REKINDLE_TRY(const hid_t id, open_dataset(file, name));
  const Handle dataset(id, H5Dclose);
  REKINDLE_CHECK(check_storage(dataset.get()));
  TensorSpec spec{name, Dtype::kFloat32, {}, Role::kParameter};
  REKINDLE_TRY(spec.dtype, dtype_of(dataset.get()));
  REKINDLE_TRY(spec.shape, shape_of(dataset.get()));
  REKINDLE_CHECK(check_tensor(spec));
  REKINDLE_CHECK(check_chunks(dataset.get(), spec.shape.size(), spec.dtype));
  return spec;
}

// A box of elements: of dimension i those from first[i] on, count[i] of them.
struct Box {
  std::vector<hsize_t> first, count;
};

// The elements from `begin` to `end`, counted row by row, as boxes in the same order. `fixed`: dimensions
// whose place is in `box` already.
void add_boxes(const std::vector<std::int64_t>& shape, std::size_t fixed, Box box, std::uint64_t begin,
               std::uint64_t end, std::vector<Box>& boxes) {
  if (begin == end) return;
  std::uint64_t row = 1;  // elements
  for (std::size_t i = fixed + 1; i < shape.size(); ++i) row *= static_cast<std::uint64_t>(shape[i]);
  const auto within_row = [&](std::uint64_t from, std::uint64_t to) {
    box.first[fixed] = from / row;
    box.count[fixed] = 1;
    const std::uint64_t base = from / row * row;
    add_boxes(shape, fixed + 1, box, from - base, to - base, boxes);
  };
  const std::uint64_t whole = (begin + row - 1) / row * row, last = end / row * row;
  if (whole > last) return within_row(begin, end);
  if (begin < whole) within_row(begin, whole);
  if (whole < last) {
    Box rows = box;
    rows.first[fixed] = whole / row;
    rows.count[fixed] = (last - whole) / row;
    for (std::size_t i = fixed + 1; i < shape.size(); ++i) {
      rows.first[i] = 0;
      rows.count[i] = static_cast<hsize_t>(shape[i]);
    }
    boxes.push_back(std::move(rows));
  }
  if (last < end) within_row(last, end);
}

Status read_box(hid_t dataset, const TensorSpec& spec, const Box& box, std::span<std::byte> out) {
  // As the type that is in the file, so that nothing is converted: a conversion may change a NaN.
  const Handle type(H5Dget_type(dataset), H5Tclose), in_file(H5Dget_space(dataset), H5Sclose);
  const hsize_t elements = out.size() / bytes_of(spec.dtype);
  const Handle in_memory(H5Screate_simple(1, &elements, nullptr), H5Sclose);
  if (H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, box.first.data(), nullptr, box.count.data(),
                          nullptr) < 0 ||
      H5Dread(dataset, type.get(), in_memory.get(), in_file.get(), H5P_DEFAULT, out.data()) < 0)
    return hdf5_error("it cannot be read");
  return {};
}

Status read_range(hid_t dataset, const TensorSpec& spec, std::uint64_t offset, std::span<std::byte> out) {
  if (out.empty()) return {};
  if (spec.shape.empty()) {
    const Handle type(H5Dget_type(dataset), H5Tclose);
    if (H5Dread(dataset, type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data()) < 0)
      return hdf5_error("it cannot be read");
    return {};
  }
  const std::size_t element = bytes_of(spec.dtype), rank = spec.shape.size();
  std::vector<Box> boxes;
  add_boxes(spec.shape, 0, Box{std::vector<hsize_t>(rank), std::vector<hsize_t>(rank)}, offset / element,
            (offset + out.size()) / element, boxes);
  for (const Box& box : boxes) {
    std::size_t bytes = element;
    for (const hsize_t count : box.count) bytes *= count;
    REKINDLE_CHECK(read_box(dataset, spec, box, out.first(bytes)));
    out = out.subspan(bytes);
  }
  return {};
}

Result<Handle> open_h5(const FilePath& path) {
  // No filters from wherever HDF5_PLUGIN_PATH points to: they are code.
  H5PLset_loading_state(0);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), false, true);
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  const hid_t file = H5Fopen(path.string().c_str(), H5F_ACC_RDONLY, access.get());
  if (file < 0) return hdf5_error("it is no HDF5 file");
  return Result<Handle>(tl::in_place, file, H5Fclose);
}

tl::unexpected<Error> at_dataset(const std::string& name, const Error& error) {
  return fail(str("dataset '", name, "': ", error.what));
}

// What the datasets claim is limited by what the file holds.
Result<StateSpec> list_tensors(hid_t file, std::uint64_t stored) {
  Links links;
  if (H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, nullptr, take_link, &links) < 0)
    return hdf5_error("its datasets cannot be listed");
  if (!links.refused.empty()) return fail(links.refused);
  StateSpec tensors;
  for (std::uint64_t room = most_expanded(stored); const std::string& name : links.names) {
    auto spec = describe(file, name);
    if (!spec) return at_dataset(name, spec.error());
    if (spec->bytes() > room)
      return at_dataset(name, Error{ExitCode::kConfig,
                                    str("it claims ", spec->bytes(), " bytes, which the file cannot hold"),
                                    {}});
    room -= spec->bytes();
    tensors.push_back(std::move(*spec));
  }
  return tensors;
}

tl::unexpected<Error> unreadable(const FilePath& path, const Error& error) {
  return fail(ExitCode::kConfig, str(path.string(), " cannot be read: ", error.what),
              "its root group must hold datasets named as in a state dict, and nothing else");
}

}  // namespace

Status with_h5(const FilePath& path, const std::function<Status(const TensorSource&)>& use) {
  const auto lock = lock_hdf5();
  if (!path_exists(path))
    return fail(ExitCode::kConfig, str("there is no file ", path.string()),
                "give the path of a file that can be read");
  REKINDLE_TRY(const InputFile input, open_input(path));
  auto file = open_h5(path);
  if (!file) return unreadable(path, file.error());
  auto tensors = list_tensors(file->get(), input.stored);
  if (!tensors) return unreadable(path, tensors.error());
  TensorSource source{std::move(*tensors), {}};
  // Open from its first piece to its last: libhdf5 forgets a dataset's chunks when it is closed.
  std::optional<Handle> dataset;
  std::size_t opened = 0;
  source.read = [&](std::size_t tensor, std::uint64_t offset, std::span<std::byte> out) -> Status {
    const TensorSpec& spec = source.tensors[tensor];
    const auto read = [&]() -> Status {
      if (!dataset || opened != tensor) {
        dataset.reset();
        REKINDLE_TRY(const hid_t id, open_dataset(file->get(), spec.name));
        dataset.emplace(id, H5Dclose);
        opened = tensor;
      }
      return read_range(dataset->get(), spec, offset, out);
    };
    if (const Status done = read(); !done) {
      const auto named = at_dataset(spec.name, done.error());
      return unreadable(path, named.value());
    }
    return {};
  };
  return use(source);
}

Result<Tensors> read_h5(const FilePath& path) {
  Tensors tensors;
  REKINDLE_CHECK(with_h5(path, [&tensors](const TensorSource& source) -> Status {
    REKINDLE_TRY(tensors, read_tensors(source, source.tensors));
    return {};
  }));
  return tensors;
}

}  // namespace rekindle::checkpoint
