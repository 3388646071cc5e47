// A file of tensors, and a state with bits that a conversion or a comparison of numbers would lose.
#pragma once

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "checkpoint/tensor_file.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {

// Bit patterns that a conversion or a comparison of numbers would lose.
inline constexpr std::uint32_t kOddBits[] = {
    0x7fc00000,  // a quiet NaN
    0x7f800001,  // a signalling NaN
    0xffc12345,  // a negative NaN with a payload
    0x80000000,  // -0
    0x00000001,  // the smallest denormal
    0x807fffff,  // a large denormal
    0x7f800000,  // infinity
    0xff7fffff,  // the largest negative number
};

inline StateSpec odd_spec() {
  StateSpec spec = mixed_spec();
  spec.push_back({"odd", Dtype::kFloat32, {2, 4}, Role::kParameter});
  return spec;
}

inline OwnedState odd_state() {
  OwnedState owned(odd_spec());
  std::memcpy(owned.storage.back().data(), kOddBits, sizeof kOddBits);
  return owned;
}

inline void expect_same(const Tensors& read, const State& state) {
  ASSERT_EQ(read.state.size(), state.size());
  for (const Tensor& tensor : state) {
    const auto found = std::ranges::find_if(
        read.state, [&tensor](const Tensor& each) { return each.spec.name == tensor.spec.name; });
    ASSERT_NE(found, read.state.end()) << tensor.spec.name;
    EXPECT_EQ(found->spec.dtype, tensor.spec.dtype);
    EXPECT_EQ(found->spec.shape, tensor.spec.shape);
    EXPECT_TRUE(std::ranges::equal(found->bytes, tensor.bytes)) << tensor.spec.name;
  }
}

class TensorFile : public CheckpointTest {
 protected:
  fs::path path = run_dir / "file.safetensors";

  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
  void write(const std::string& header, const std::string& data) const {
    const std::uint64_t size = header.size();
    write(std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + data);
  }
  void refused(const std::string& why) const {
    const auto read = read_safetensors(path);
    ASSERT_FALSE(read) << why;
    EXPECT_EQ(read.error().code, ExitCode::kConfig);
    EXPECT_NE(read.error().what.find(why), std::string::npos) << why << "\nsaid: " << read.error().line();
    EXPECT_NE(read.error().what.find(path.string()), std::string::npos) << read.error().line();
  }
};

}  // namespace rekindle::checkpoint
