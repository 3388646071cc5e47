// An HDF5 file driver whose file is a SparseBytes: libhdf5 lays out a file of any size while only its headers
// take memory, and no disk, lock or network file system can make it fail. (The core driver would allocate the
// whole file; a memfd has no real path, which 1.10 asks for.) Internal to checkpoint/.
#pragma once

#include <hdf5.h>

#include "checkpoint/sparse_bytes.hpp"

namespace rekindle::checkpoint {

struct MemoryFile {
  SparseBytes bytes;
  haddr_t end = 0;  // the file's size once libhdf5 has closed it
};

// To be unregistered with H5FDunregister; negative on failure.
hid_t register_memory_driver();
// Files created with `access` become `file`, which must outlive them.
bool use_memory_driver(hid_t access, hid_t driver, MemoryFile& file);

}  // namespace rekindle::checkpoint
