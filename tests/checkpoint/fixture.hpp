// A separate run directory for each test, and a state with every kind of tensor.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {

// For a path that a person named. The program's own function takes and returns a FilePath.
inline fs::path directory_of(const fs::path& run_dir, const CheckpointId& id) {
  return directory_of(FilePath(run_dir), id).path();
}

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    std::string name = (fs::temp_directory_path() / "rekindle-checkpoint-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    run_dir = name;
  }
  ~CheckpointTest() override {
    std::error_code ignored;
    fs::remove_all(run_dir, ignored);
  }
  fs::path run_dir;
};

// Every tensor begins at a page border, like the large tensors of a replica.
template <class T>
struct PageAllocator {
  using value_type = T;
  static constexpr std::align_val_t kPage{4096};
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kPage)); }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, kPage); }
  friend bool operator==(const PageAllocator&, const PageAllocator&) { return true; }
};

using Storage = std::vector<std::vector<std::byte, PageAllocator<std::byte>>>;
inline bool operator==(const std::vector<std::vector<std::byte>>& a, const Storage& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return std::ranges::equal(x, y); });
}

// The memory of a state, filled from `seed`.
struct OwnedState {
  Storage storage;
  State state;

  explicit OwnedState(const StateSpec& spec, std::uint64_t seed = 1) {
    Rng rng(stream_key(seed, Draws::kInit));
    for (const TensorSpec& tensor : spec) {
      auto& bytes = storage.emplace_back(tensor.bytes());
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
      state.push_back({tensor, bytes});
    }
  }
  OwnedState(OwnedState&&) = default;
};

// Odd shapes, a scalar, integers, tensors without elements, a row larger than a block: about 12 MB.
inline StateSpec mixed_spec() {
  using enum Dtype;
  return {{"features.0.weight", kFloat32, {7, 3, 3, 3}, Role::kParameter},
          {"features.0.bias", kFloat32, {7}, Role::kParameter},
          {"half", kBfloat16, {13, 5}, Role::kParameter},
          {"classifier.weight", kFloat32, {1301, 1031}, Role::kParameter},
          {"one_long_row", kUint8, {1, 5000011}, Role::kParameter},
          {"bn.running_mean", kFloat64, {3}, Role::kBuffer},
          {"bn.num_batches_tracked", kInt64, {}, Role::kBuffer},
          {"nothing", kFloat32, {0, 4}, Role::kBuffer},
          {"counts", kInt64, {11}, Role::kBuffer},
          {"mask", kUint8, {3, 1}, Role::kBuffer},
          {"momentum.features.0.weight", kFloat32, {7, 3, 3, 3}, Role::kOptimizer},
          {"momentum.classifier.weight", kFloat32, {331, 1031}, Role::kOptimizer}};
}

inline StateSpec small_spec() {
  return {{"weight", Dtype::kFloat32, {5, 3}, Role::kParameter},
          {"bias", Dtype::kFloat32, {5}, Role::kParameter},
          {"steps", Dtype::kInt64, {}, Role::kBuffer},
          {"momentum.weight", Dtype::kFloat32, {5, 3}, Role::kOptimizer}};
}

// Writes a shard with the correct hashes of the state.
inline Result<ShardEntry> write_shard(const FilePath& run_dir, const CheckpointId& id, const State& state,
                                      int shards, int shard) {
  return write_shard(run_dir, id, state, hash_chunks(state), shards, shard);
}

// The same directly from the state's memory where its alignment allows this. The owner checks the state
// again.
inline Result<ShardEntry> write_lent_shard(const FilePath& run_dir, const CheckpointId& id,
                                           const State& state, int shards, int shard) {
  return write_shard(run_dir, id, state, hash_chunks(state), shards, shard, {{}, {}, [] { return true; }});
}

// Writes shards alternately from the state's memory and from a copy.
inline Result<ShardEntry> write_shard_either_way(const FilePath& run_dir, const CheckpointId& id,
                                                 const State& state, int shards, int shard) {
  return shard % 2 == 0 ? write_lent_shard(run_dir, id, state, shards, shard)
                        : write_shard(run_dir, id, state, shards, shard);
}

// Writes all shards, in both ways, without a commit.
inline Manifest write_shards(const fs::path& run_dir, const CheckpointId& id, const State& state,
                             int shards) {
  Manifest manifest;
  manifest.id = id;
  manifest.digest = state_digest(id.step, state).hex();
  manifest.identity = R"({"model":"vgg11","seed":1})";
  manifest.fingerprint = R"({"threads":1})";
  manifest.created = "2031-02-03T04:05:06Z";
  manifest.contents = {spec_of(state), hash_chunks(state)};
  for (int shard = 0; shard < shards; ++shard) {
    auto entry = write_shard_either_way(run_dir, id, state, shards, shard);
    if (!entry) ADD_FAILURE() << entry.error().line();
    if (entry) manifest.shards.push_back(*entry);
  }
  return manifest;
}

inline Manifest write_checkpoint(const fs::path& run_dir, const CheckpointId& id, const State& state,
                                 int shards, const std::string& identity = "") {
  Manifest manifest = write_shards(run_dir, id, state, shards);
  if (!identity.empty()) manifest.identity = identity;
  if (Status status = commit(run_dir, manifest); !status) ADD_FAILURE() << status.error().line();
  return manifest;
}

inline void flip_bit(const fs::path& path, std::uint64_t offset, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ (1 << bit)));
  ASSERT_TRUE(file.good());
}

// Reads with `parts` readers into memory that contains another pattern. Returns the first error, if any.
inline Status restore(const fs::path& directory, const Manifest& manifest, int parts, OwnedState& into) {
  Status first;
  for (int part = 0; part < parts; ++part) {
    if (Status status = read_part(directory, manifest, parts, part, into.state); !status && first)
      first = status;
  }
  return first;
}

inline std::vector<std::string> files_in(const fs::path& directory) {
  return names_in(directory).value_or(std::vector<std::string>());
}

}  // namespace rekindle::checkpoint
