#include "checkpoint/h5_handle.hpp"

namespace rekindle::checkpoint {
namespace {

// A float of 16 bits, which HDF5 converts. h5py shows float16 as numpy's, and bfloat16, the upper half of a
// float32, as a float.
hid_t make_small_float(std::size_t fraction_bits) {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  if (type < 0) return type;
  const std::size_t exponent_bits = 15 - fraction_bits, bias = (std::size_t{1} << (exponent_bits - 1)) - 1;
  if (H5Tset_fields(type, 15, fraction_bits, exponent_bits, 0, fraction_bits) < 0 ||
      H5Tset_size(type, 2) < 0 || H5Tset_ebias(type, bias) < 0) {
    H5Tclose(type);
    return -1;
  }
  return type;
}

}  // namespace

std::unique_lock<std::mutex> lock_hdf5() {
  static std::mutex mutex;
  std::unique_lock lock(mutex);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  return lock;
}

std::string hdf5_detail() {
  std::string detail;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_DOWNWARD,
      [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
        if (error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;  // keeps the innermost
        return 0;
      },
      &detail);
  return detail;
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
      return make_small_float(7);
    case Dtype::kFloat16:
      return make_small_float(10);
  }
  return -1;
}

}  // namespace rekindle::checkpoint
