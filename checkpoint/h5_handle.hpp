// Shared by all uses of libhdf5. Internal to checkpoint/.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

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

// Debian's libhdf5 is not thread-safe and has one state for the process, so there is one lock for the
// process. While the lock is held, errors are returned as values and print no stack traces on stderr.
std::unique_lock<std::mutex> lock_hdf5();

std::string hdf5_detail();  // the innermost message of the last failed call

// The HDF5 type of a dataset; bfloat16 is a custom float, which HDF5 converts and h5py shows. Negative on
// failure. Close with H5Tclose.
hid_t make_type(Dtype dtype);

}  // namespace rekindle::checkpoint
