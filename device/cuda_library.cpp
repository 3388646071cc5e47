#include "device/cuda_library.hpp"

#include "device/cuda_device.hpp"

extern "C" void rekindle_open_cuda_device(
    int number, rekindle::Result<std::unique_ptr<rekindle::device::Device>>* opened) {
  *opened = rekindle::device::open_cuda_device_for(number);
}

extern "C" void rekindle_check_cuda_driver(rekindle::Status* checked) {
  *checked = rekindle::device::check_cuda_driver();
}
