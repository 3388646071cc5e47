// An HDF5 file driver whose file is a SparseBytes. libhdf5 lays out a file of any size, but only the headers
// take memory, and no disk, lock or network file system can cause an error. (The core driver would allocate
// the complete file; a memfd has no real path, which 1.10 requires.) Internal to checkpoint/.
#pragma once

#include <hdf5.h>

#include "checkpoint/sparse_bytes.hpp"

namespace rekindle::checkpoint {

struct MemoryFile {
  SparseBytes bytes;
  haddr_t end = 0;  // the file's size after libhdf5 has closed it
};

// Unregister with H5FDunregister. Negative on failure.
hid_t register_memory_driver();
// Files created with `access` write to `file`, which must outlive them.
bool use_memory_driver(hid_t access, hid_t driver, MemoryFile& file);

}  // namespace rekindle::checkpoint
