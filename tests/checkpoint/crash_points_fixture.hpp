// A run with checkpoints, and the disks that a crash or a power loss may leave.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/export.hpp"
#include "fixture.hpp"
#include "shim.hpp"

namespace rekindle::checkpoint {

using Rule = Survival::Rule;

inline constexpr int kShards = 2, kKeep = 2;
inline constexpr CheckpointId kOldest{10, 1, 1}, kGivenUp{15, 1, 1}, kOld{20, 1, 1}, kNew{30, 1, 2},
    kNext{40, 2, 1}, kLater{50, 3, 1}, kLarge{60, 3, 1};

// A state with blocks that are written past the page cache.
inline StateSpec large_spec() {
  return {{"large", Dtype::kUint8, {9, std::int64_t{1} << 19}, Role::kParameter}};
}

// Each step has a different state.
inline const OwnedState& state_of(const CheckpointId& id) {
  static std::map<std::uint64_t, OwnedState> states;
  return states.try_emplace(id.step, id == kLarge ? large_spec() : small_spec(), id.step).first->second;
}

// The directory, opened as a run opens its own directory.
inline FilePath own(const fs::path& run) { return FilePath::below(run, Trust::kOwn); }

inline Status write_and_commit(const FilePath& run, const CheckpointId& id) {
  const State& state = state_of(id).state;
  Manifest manifest{id, state_digest(id.step, state).hex(),   "{}", "{}",
                    "", {spec_of(state), hash_chunks(state)}, {}};
  for (int shard = 0; shard < kShards; ++shard) {
    REKINDLE_TRY(ShardEntry entry, write_shard_either_way(run, id, state, kShards, shard));
    manifest.shards.push_back(std::move(entry));
  }
  return commit(run, manifest);
}

using Ids = std::vector<CheckpointId>;

// After a restart, all listed checkpoints must be complete, and the promised ones must exist. Returns the
// error.
inline std::string flaw(const fs::path& run, const Ids& promised) {
  const Ids listed = list_committed(own(run));
  for (const CheckpointId& id : promised) {
    if (std::ranges::find(listed, id) == listed.end()) return str(id.directory_name(), " is lost");
  }
  for (const CheckpointId& id : listed) {
    const auto loaded = load(directory_of(own(run), id));
    if (!loaded) return loaded.error().line();
    if (loaded->storage != state_of(id).storage) return str(id.directory_name(), " has other bits");
  }
  return "";
}

// The run goes on after a restart: it writes its next checkpoint and sweeps incomplete ones. Returns the
// error.
inline std::string flaw_of_going_on(const fs::path& run, const CheckpointId& next) {
  const Ids before = list_committed(own(run));
  if (before.empty()) return "nothing is left to go on from";
  if (Status status = write_and_commit(own(run), next); !status) return status.error().line();
  if (Status status = sweep(own(run), {next, kKeep}); !status) return status.error().line();
  if (list_committed(own(run)) != Ids{next, before.front()}) return "not the newest two are kept";
  if (files_in(run / "checkpoints").size() != kKeep) return "rubbish is left";
  return flaw(run, {next, before.front()});
}

class CrashPoints : public CheckpointTest {
 protected:
  // A run with two checkpoints and an abandoned one.
  CrashPoints() {
    fs::create_directories(prepared);
    for (const CheckpointId& id : {kOldest, kOld}) EXPECT_TRUE(write_and_commit(own(prepared), id));
    EXPECT_TRUE(write_shard(own(prepared), kGivenUp, state_of(kGivenUp).state, kShards, 1));
    std::ofstream(directory_of(prepared, kGivenUp) / "shard-00000-of-00002.h5.tmp.1") << "half";
  }
  ~CrashPoints() override { fs::remove_all(memory); }

  void start_again() {
    fs::remove_all(run);
    fs::copy(prepared, run, fs::copy_options::recursive);
  }

  // The first flaw that `find` sees among the disks that a power loss after the first `operations` may leave.
  template <class Find>
  std::string flaw_of_each_disk(const Journal& journal, std::size_t operations, int random,
                                const Find& find) {
    for (int i = 0; i < random + 2; ++i) {
      const Survival survival{i == 0   ? Rule::kNothing
                              : i == 1 ? Rule::kAll
                                       : Rule::kRandom,
                              operations * 1000 + static_cast<std::size_t>(i)};
      journal.rebuild(operations, survival, disk);
      const Shim shim(disk);
      if (const std::string found = find(); !found.empty())
        return str(found, " (power lost after operation ", operations, ", seed ", survival.seed, ")");
    }
    return "";
  }
  std::string flaw_of_disks(const Journal& journal, std::size_t operations, const Ids& promised, int random,
                            bool go_on) {
    return flaw_of_each_disk(journal, operations, random, [&] {
      const std::string found = flaw(disk, promised);
      return found.empty() && go_on ? flaw_of_going_on(disk, kLater) : found;
    });
  }

  // Writes a checkpoint and sweeps the oldest, without a fault.
  struct Recording {
    Journal journal;
    std::size_t committed_at = 0;
    Ids promised(std::size_t operations) const {
      return operations < committed_at ? Ids{kOldest, kOld} : Ids{kOld, kNew};
    }
  };
  Recording record() {
    start_again();
    const Shim shim(run);
    EXPECT_TRUE(write_and_commit(own(run), kNew));
    const std::size_t committed_at = shim.journal().size();
    EXPECT_TRUE(sweep(own(run), {kNew, kKeep}));
    return {shim.journal(), committed_at};
  }

  // The test creates thousands of small disks. They are in memory if there is a memory file system and the
  // caller has not chosen another one.
  const fs::path memory =
      (fs::is_directory("/dev/shm") && std::getenv("TMPDIR") == nullptr ? "/dev/shm" : run_dir) /
      run_dir.filename();
  const fs::path prepared = memory / "prepared", run = memory / "run", disk = memory / "disk";
};

}  // namespace rekindle::checkpoint
