// The first GPU of this machine, with a stream.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "device/cuda_device.hpp"

namespace rekindle::device::testing {

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_cuda_device(0);
    ASSERT_TRUE(opened) << opened.error().line();
    device = std::move(*opened);
    stream = std::move(device->make_stream().value());
    place = {device.get(), stream.get()};
  }
  template <class T>
  Memory upload(const std::vector<T>& values) {
    Memory memory = std::move(device->allocate(values.size() * sizeof(T)).value());
    device->copy(*stream, memory.data(), values.data(), values.size() * sizeof(T));
    EXPECT_TRUE(device->synchronize(*stream));
    return memory;
  }
  template <class T = float>
  std::vector<T> download(const Memory& memory) {
    std::vector<T> values(memory.bytes() / sizeof(T));
    device->copy(*stream, values.data(), memory.data(), memory.bytes());
    EXPECT_TRUE(device->synchronize(*stream));
    return values;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  Place place;
};

}  // namespace rekindle::device::testing
