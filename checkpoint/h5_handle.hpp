// What every use of libhdf5 shares. Internal to checkpoint/.
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

// libhdf5 as Debian builds it is not thread-safe, and its state is one a process: so is the lock. Errors are
// values while it is held, not stack traces on stderr.
std::unique_lock<std::mutex> lock_hdf5();

std::string hdf5_detail();  // what the last failed call says, innermost

// The type of a dataset of such a tensor; bfloat16 is a custom float, which HDF5 converts and h5py shows.
// Negative on failure; to be closed with H5Tclose.
hid_t make_type(Dtype dtype);

}  // namespace rekindle::checkpoint
