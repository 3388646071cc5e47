#include "checkpoint/h5_driver.hpp"

#include <algorithm>
#include <memory>
#include <span>

namespace rekindle::checkpoint {
namespace {

// The content of the property list.
struct DriverInfo {
  MemoryFile* file;
};

// libhdf5 sees only `base`, which must come first.
struct OpenFile {
  H5FD_t base;
  MemoryFile* file;
};

MemoryFile& file_of(H5FD_t* file) { return *reinterpret_cast<OpenFile*>(file)->file; }
const MemoryFile& file_of(const H5FD_t* file) { return *reinterpret_cast<const OpenFile*>(file)->file; }

H5FD_t* open_memory(const char*, unsigned, hid_t access, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  return &std::make_unique<OpenFile>(OpenFile{{}, info->file}).release()->base;
}

herr_t close_memory(H5FD_t* file) {
  const std::unique_ptr<OpenFile> owned(reinterpret_cast<OpenFile*>(file));
  return 0;
}

herr_t query_memory(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t end_of_allocation(const H5FD_t* file, H5FD_mem_t) { return file_of(file).end; }

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  file_of(file).end = end;
  return 0;
}

herr_t read_memory(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset, size_t bytes, void* out) {
  file_of(file).bytes.read(offset, std::span(static_cast<std::byte*>(out), bytes));
  return 0;
}

herr_t write_memory(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset, size_t bytes, const void* from) {
  file_of(file).bytes.write(offset, std::span(static_cast<const std::byte*>(from), bytes));
  return 0;
}

}  // namespace

hid_t register_memory_driver() {
  H5FD_class_t driver{};  // unset fields have libhdf5's default
  driver.name = "rekindle_memory";
  driver.maxaddr = haddr_t{1} << 62;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(DriverInfo);
  driver.open = open_memory;
  driver.close = close_memory;
  driver.query = query_memory;
  driver.get_eoa = end_of_allocation;
  driver.set_eoa = set_end_of_allocation;
  driver.get_eof = end_of_allocation;
  driver.read = read_memory;
  driver.write = write_memory;
  constexpr H5FD_mem_t kFreeLists[] = H5FD_FLMAP_DICHOTOMY;
  std::ranges::copy(kFreeLists, driver.fl_map);
  return H5FDregister(&driver);
}

bool use_memory_driver(hid_t access, hid_t driver, MemoryFile& file) {
  const DriverInfo info{&file};
  return H5Pset_driver(access, driver, &info) >= 0;
}

}  // namespace rekindle::checkpoint
