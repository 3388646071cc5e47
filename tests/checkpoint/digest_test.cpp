#include <xxhash.h>

#include <cstdio>
#include <map>

#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

// A second implementation of docs/checkpoint-format.md, "The state digest".
std::string documented_digest(std::uint64_t step, const State& state) {
  std::string stream;
  const auto u64 = [&stream](std::uint64_t value) {
    for (int i = 0; i < 8; ++i) stream += static_cast<char>(value >> (8 * i));
  };
  const std::map<Dtype, std::string> names = {{Dtype::kFloat32, "float32"}, {Dtype::kFloat64, "float64"},
                                              {Dtype::kInt64, "int64"},     {Dtype::kInt32, "int32"},
                                              {Dtype::kUint8, "uint8"},     {Dtype::kBfloat16, "bfloat16"},
                                              {Dtype::kFloat16, "float16"}};
  u64(step);
  for (const Tensor& tensor : state) {
    u64(tensor.spec.name.size());
    stream += tensor.spec.name;
    const std::string& dtype = names.at(tensor.spec.dtype);
    u64(dtype.size());
    stream += dtype;
    u64(tensor.spec.shape.size());
    for (const std::int64_t dimension : tensor.spec.shape) u64(static_cast<std::uint64_t>(dimension));
    // Chunks of complete rows, as many rows as fit into 1 MiB.
    const std::size_t row = tensor.spec.row_bytes();
    const std::size_t chunk = row == 0 ? 1 : row * std::max<std::size_t>(1, (1 << 20) / row);
    for (std::size_t begin = 0; begin < tensor.bytes.size(); begin += chunk) {
      const std::size_t size = std::min(chunk, tensor.bytes.size() - begin);
      const XXH128_hash_t hash = XXH3_128bits(tensor.bytes.data() + begin, size);
      XXH128_canonical_t canonical;
      XXH128_canonicalFromHash(&canonical, hash);
      stream.append(reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest);
    }
  }
  const XXH128_hash_t hash = XXH3_128bits(stream.data(), stream.size());
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

TEST(Digest, IsTheDocumentedByteStream) {
  const OwnedState owned(mixed_spec());
  EXPECT_EQ(state_digest(42, owned.state).hex(), documented_digest(42, owned.state));
  EXPECT_EQ(state_digest(0, {}).hex(), documented_digest(0, {}));
}

TEST(Digest, AnyDifference_ChangesIt) {
  OwnedState owned(small_spec());
  const std::string before = state_digest(7, owned.state).hex();
  EXPECT_EQ(state_digest(7, OwnedState(small_spec()).state).hex(), before);
  EXPECT_NE(state_digest(8, owned.state).hex(), before);
  for (std::size_t i = 0; i < owned.state.size(); ++i) {
    Tensor& tensor = owned.state[i];
    tensor.bytes.back() ^= std::byte{0x10};
    EXPECT_NE(state_digest(7, owned.state).hex(), before) << "one bit of " << tensor.spec.name;
    tensor.bytes.back() ^= std::byte{0x10};
    const TensorSpec spec = tensor.spec;
    tensor.spec.name += "x";
    EXPECT_NE(state_digest(7, owned.state).hex(), before) << "another name";
    tensor.spec = spec;
    tensor.spec.shape.push_back(1);
    EXPECT_NE(state_digest(7, owned.state).hex(), before) << "another shape";
    tensor.spec = spec;
    tensor.spec.dtype = spec.dtype == Dtype::kInt32 ? Dtype::kFloat32 : Dtype::kInt32;
    EXPECT_NE(state_digest(7, owned.state).hex(), before) << "another type";
    tensor.spec = spec;
  }
  std::swap(owned.state[0], owned.state[3]);
  EXPECT_NE(state_digest(7, owned.state).hex(), before) << "another order";
  std::swap(owned.state[0], owned.state[3]);
  EXPECT_EQ(state_digest(7, owned.state).hex(), before);
}

}  // namespace
}  // namespace rekindle::checkpoint
