// A valid checkpoint with a changed state: its checksums and its digest are those of the changed bytes.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/export.hpp"

namespace rekindle::process_test {

// The new checkpoint has the step of checkpoint `id`, is newer, and has one shard.
inline void plant_checkpoint(const std::filesystem::path& run_dir, const checkpoint::CheckpointId& id,
                             const std::function<void(const checkpoint::State&)>& change) {
  auto loaded = checkpoint::load(checkpoint::directory_of(run_dir, id));
  ASSERT_TRUE(loaded) << loaded.error().line();
  ASSERT_NO_FATAL_FAILURE(change(loaded->state));
  checkpoint::Manifest manifest = loaded->manifest;
  manifest.id = {id.step, id.term + 1, 1};
  manifest.contents.chunks = hash_chunks(loaded->state);
  manifest.digest = state_digest(id.step, loaded->state).hex();
  manifest.shards.clear();
  auto entry = write_shard(run_dir, manifest.id, loaded->state, manifest.contents.chunks, 1, 0);
  ASSERT_TRUE(entry) << entry.error().line();
  manifest.shards.push_back(*entry);
  const Status committed = commit(run_dir, manifest);
  ASSERT_TRUE(committed) << committed.error().line();
}

}  // namespace rekindle::process_test
