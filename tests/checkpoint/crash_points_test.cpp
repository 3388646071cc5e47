// Every call that writing, committing and sweeping make of the file system is a place where the process may
// die, the power may fail, or the call may. See docs/checkpoint-format.md, "Writing, and what a crash
// leaves".
#include <fcntl.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>

#include "checkpoint/export.hpp"
#include "fixture.hpp"
#include "shim.hpp"

namespace rekindle::checkpoint {
namespace {

using Kind = Fault::Kind;
using Rule = Survival::Rule;

constexpr int kShards = 2, kKeep = 2;
constexpr CheckpointId kOldest{10, 1, 1}, kGivenUp{15, 1, 1}, kOld{20, 1, 1}, kNew{30, 1, 2}, kNext{40, 2, 1},
    kLater{50, 3, 1}, kLarge{60, 3, 1};

// Blocks that are written past the page cache.
StateSpec large_spec() { return {{"large", Dtype::kUint8, {9, std::int64_t{1} << 19}, Role::kParameter}}; }

// Each step has a state of its own.
const OwnedState& state_of(const CheckpointId& id) {
  static std::map<std::uint64_t, OwnedState> states;
  return states.try_emplace(id.step, id == kLarge ? large_spec() : small_spec(), id.step).first->second;
}

Result<ShardEntry> write_copied_shard(const FilePath& run, const CheckpointId& id, const State& state,
                                      int shards, int shard) {
  return write_shard(run, id, state, shards, shard);
}

// As a run opens its own directory.
FilePath own(const fs::path& run) { return FilePath::below(run, Trust::kOwn); }

Status write_and_commit(const FilePath& run, const CheckpointId& id) {
  const State& state = state_of(id).state;
  Manifest manifest{id, state_digest(id.step, state).hex(),   "{}", "{}",
                    "", {spec_of(state), hash_chunks(state)}, {}};
  for (int shard = 0; shard < kShards; ++shard) {
    REKINDLE_TRY(ShardEntry entry, write_shard_either_way(run, id, state, kShards, shard));
    manifest.shards.push_back(std::move(entry));
  }
  return commit(run, manifest);
}

bool opens_direct(const fs::path& file) {
  const Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_DIRECT, 0600));
  return fd.get() >= 0;
}

bool has_temporary_files(const fs::path& directory) {
  return std::ranges::any_of(files_in(directory),
                             [](const std::string& name) { return name.find(".tmp.") != std::string::npos; });
}

using Ids = std::vector<CheckpointId>;

// What a restart finds must be whole, and what was promised must be there. Says what is wrong.
std::string flaw(const fs::path& run, const Ids& promised) {
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

// The run goes on after a restart: its next checkpoint is written, and what is in the way is swept.
std::string flaw_of_going_on(const fs::path& run, const CheckpointId& next) {
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
  // A run with two checkpoints and one that was given up.
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

  // The first flaw of the disks that a loss of power after the first `operations` may leave.
  std::string flaw_of_disks(const Journal& journal, std::size_t operations, const Ids& promised, int random,
                            bool go_on) {
    for (int i = 0; i < random + 2; ++i) {
      const Survival survival{i == 0   ? Rule::kNothing
                              : i == 1 ? Rule::kAll
                                       : Rule::kRandom,
                              operations * 1000 + static_cast<std::size_t>(i)};
      journal.rebuild(operations, survival, disk);
      const Shim shim(disk);
      std::string found = flaw(disk, promised);
      if (found.empty() && go_on) found = flaw_of_going_on(disk, kLater);
      if (!found.empty())
        return str(found, " (power lost after operation ", operations, ", seed ", survival.seed, ")");
    }
    return "";
  }

  // A checkpoint is written and the oldest swept, without a fault.
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

  // Thousands of small disks are made: in memory, where there is a file system for that and no other is
  // asked for.
  const fs::path memory =
      (fs::is_directory("/dev/shm") && std::getenv("TMPDIR") == nullptr ? "/dev/shm" : run_dir) /
      run_dir.filename();
  const fs::path prepared = memory / "prepared", run = memory / "run", disk = memory / "disk";
};

TEST_F(CrashPoints, PowerLostAtAnyMoment_CommittedCheckpointsAreWholeAndTheRunGoesOn) {
  const Recording recording = record();
  for (std::size_t operations = 0; operations <= recording.journal.size(); ++operations) {
    ASSERT_EQ(flaw_of_disks(recording.journal, operations, recording.promised(operations), 4, true), "");
  }
}

TEST_F(CrashPoints, PowerLostAroundTheFirstCheckpoint_ItIsThereOnceItWasPromised) {
  fs::create_directory(run);
  std::optional<Shim> shim(run);
  ASSERT_TRUE(write_and_commit(own(run), kNew));
  const Journal journal = shim->journal();
  shim.reset();
  for (std::size_t operations = 0; operations <= journal.size(); ++operations) {
    ASSERT_EQ(flaw_of_disks(journal, operations, operations < journal.size() ? Ids{} : Ids{kNew}, 6, false),
              "");
  }
}

TEST_F(CrashPoints, PowerLostWhileLargeShardsAreWritten_CommittedCheckpointsAreWhole) {
  start_again();
  std::optional<Shim> shim(run);
  ASSERT_TRUE(write_and_commit(own(run), kLarge));
  const Journal journal = shim->journal();
  shim.reset();
  const Ids before{kOldest, kOld}, after{kOld, kLarge};
  for (std::size_t operations = 0; operations <= journal.size(); ++operations) {
    ASSERT_EQ(flaw_of_disks(journal, operations, operations < journal.size() ? before : after, 4, false), "");
  }
}

// The check above must be able to fail.
TEST_F(CrashPoints, Planted_AnFsyncThatDoesNothingIsFound) {
  const Recording recording = record();
  for (const bool of_directories : {false, true}) {
    const Journal planted = recording.journal.without_syncs(of_directories);
    EXPECT_NE(flaw_of_disks(planted, planted.size(), recording.promised(planted.size()), 0, false), "");
  }
}

// What the dead process had not fsynced is still in the page cache when the next one starts, and is lost
// later.
TEST_F(CrashPoints, WriterKilledAtAnyCallAndPowerLostLater_NothingPromisedIsLost) {
  Rng rng(stream_key(3, Draws::kOrder));
  bool killed = true;
  for (std::size_t n = 0; killed; ++n) {
    start_again();
    std::optional<Shim> shim(run);
    shim->arm({Kind::kStopped}, n);
    std::ignore = write_and_commit(own(run), kNew);
    killed = shim->struck();
    SCOPED_TRACE(str("killed at call ", n, ": ", shim->struck_call()));
    shim->disarm();

    const std::size_t restarted = shim->journal().size();
    ASSERT_EQ(flaw(run, {kOld}), "");
    const Ids found = list_committed(own(run));
    ASSERT_EQ(flaw_of_going_on(run, kNext), "");
    const Journal journal = shim->journal();
    shim.reset();
    ASSERT_EQ(flaw_of_disks(journal, journal.size(), {kNext, found.front()}, 2, false), "");
    const std::size_t operations = restarted + rng.below(journal.size() - restarted);
    ASSERT_EQ(flaw_of_disks(journal, operations, {}, 2, true), "");
  }
}

TEST_F(CrashPoints, WriterOfLargeShardsKilledAtAnyCall_TheRunGoesOn) {
  constexpr CheckpointId kAfterLarge{70, 4, 1};
  bool killed = true;
  for (std::size_t n = 0; killed; ++n) {
    start_again();
    Shim shim(run);
    shim.arm({Kind::kStopped}, n);
    std::ignore = write_and_commit(own(run), kLarge);
    killed = shim.struck();
    SCOPED_TRACE(str("killed at call ", n, ": ", shim.struck_call()));
    shim.disarm();
    ASSERT_EQ(flaw(run, {kOld}), "");
    ASSERT_EQ(flaw_of_going_on(run, kAfterLarge), "");
  }
}

TEST_F(CrashPoints, SweepKilledAtAnyCallAndPowerLostInTheNext_NoCheckpointLacksFiles) {
  bool killed = true;
  for (std::size_t n = 0; killed; ++n) {
    start_again();
    std::optional<Shim> shim(run);
    ASSERT_TRUE(write_and_commit(own(run), kNew));
    shim->arm({Kind::kStopped}, n);
    std::ignore = sweep(own(run), {kNew, kKeep});
    killed = shim->struck();
    SCOPED_TRACE(str("killed at call ", n, ": ", shim->struck_call()));
    shim->disarm();

    const std::size_t restarted = shim->journal().size();
    ASSERT_TRUE(sweep(own(run), {kNew, kKeep}));
    ASSERT_EQ(files_in(run / "checkpoints"), (std::vector{kOld.directory_name(), kNew.directory_name()}));
    const Journal journal = shim->journal();
    shim.reset();
    for (std::size_t operations = restarted; operations <= journal.size(); ++operations) {
      ASSERT_EQ(flaw_of_disks(journal, operations, {kOld, kNew}, 4, false), "");
    }
  }
}

const std::vector<Fault> kFaults = {{Kind::kRefused, EIO},
                                    {Kind::kRefused, ENOSPC},
                                    {Kind::kRefused, EINTR},
                                    {Kind::kRefused, EIO, true},
                                    {Kind::kRefused, ENOSPC, true},
                                    {Kind::kDoneButReported, EIO},
                                    {Kind::kShort},
                                    {Kind::kNothing},
                                    {Kind::kNothing, 0, true}};

// Calls that a signal cut short, or that did only part of the work, are no failures.
bool is_harmless(const Fault& fault) { return fault.error == EINTR || fault.kind == Kind::kShort; }

TEST_F(CrashPoints, AnyCallFailsInAnyWay_TheErrorIsReportedAndTheRunGoesOn) {
  for (const Fault& fault : kFaults) {
    bool struck = true;
    for (std::size_t n = 0; struck; ++n) {
      start_again();
      std::optional<Shim> shim(run);
      shim->arm(fault, n);
      const Status written = write_and_commit(own(run), kNew);
      const Status swept = written ? sweep(own(run), {kNew, kKeep}) : Status();
      struck = shim->struck();
      SCOPED_TRACE(str(to_text(fault), " at call ", n, ": ", shim->struck_call()));
      shim->disarm();

      if (!struck || is_harmless(fault)) {
        ASSERT_TRUE(written) << written.error().line();
        ASSERT_TRUE(swept || fault.error == EINTR) << swept.error().line();  // the next sweep will do
      }
      if (!written && !fault.lasting) {
        ASSERT_FALSE(has_temporary_files(directory_of(run, kNew)));
      }
      const Ids promised = written ? Ids{kOld, kNew} : Ids{kOldest, kOld};
      ASSERT_EQ(flaw(run, promised), "");
      const Journal failed = shim->journal();
      if (!written && n % 2 == 0 && !read_manifest(directory_of(run, kNew))) {
        ASSERT_TRUE(discard(own(run), kNew));  // the next sweep must do without, if it comes to that
      }
      const Ids found = list_committed(own(run));
      ASSERT_EQ(flaw_of_going_on(run, kNext), "");
      const Journal gone_on = shim->journal();
      shim.reset();
      ASSERT_EQ(flaw_of_disks(failed, failed.size(), promised, 1, false), "");
      ASSERT_EQ(flaw_of_disks(gone_on, gone_on.size(), {kNext, found.front()}, 1, false), "");
    }
  }
}

TEST_F(CrashPoints, AnyCallFailsWhereACheckpointIsCommittedAlready_ItIsNotOverwritten) {
  const OwnedState other(small_spec(), 77);
  Manifest others = *read_manifest(directory_of(prepared, kOld));
  others.contents.chunks = hash_chunks(other.state);
  others.digest = state_digest(kOld.step, other.state).hex();
  for (const Fault& fault : kFaults) {
    bool struck = true;
    for (std::size_t n = 0; struck; ++n) {
      start_again();
      Shim shim(run);
      shim.arm(fault, n);
      const bool written = write_shard(own(run), kOld, other.state, kShards, 0).has_value();
      const bool committed = commit(own(run), others).has_value();
      struck = shim.struck();
      SCOPED_TRACE(str(to_text(fault), " at call ", n, ": ", shim.struck_call()));
      shim.disarm();
      ASSERT_FALSE(written || committed);
      ASSERT_EQ(flaw(run, {kOldest, kOld}), "");
    }
  }
}

// Storage may refuse to go past the page cache at either of two places.
TEST_F(CrashPoints, NoDirectAccess_WrittenAndReadThroughThePageCache) {
  using NoDirect = Shim::NoDirect;
  for (const NoDirect where : {NoDirect::kAtSwitch, NoDirect::kAtTransfer}) {
    SCOPED_TRACE(static_cast<int>(where));
    start_again();
    Shim shim(run);
    shim.refuse_direct(where);
    const Status written = write_and_commit(own(run), kLarge);
    ASSERT_TRUE(written) << written.error().line();
    ASSERT_EQ(flaw(run, {kOldest, kOld, kLarge}), "");
    // Where the storage below takes no file that is opened so, no byte is moved so.
    EXPECT_TRUE(shim.refused_direct() || (where == NoDirect::kAtTransfer && !opens_direct(run / "probe")));
  }
}

// Large blocks are written past the page cache, which has its own ways to fail.
TEST_F(CrashPoints, AnyCallOfALargeShardFails_ItIsReportedOrMendedAndNothingIsLeft) {
  const CheckpointId id{5, 1, 1};
  const OwnedState owned(large_spec());
  for (const auto write : {write_copied_shard, write_lent_shard}) {
    for (const Fault& fault : kFaults) {
      bool struck = true;
      for (std::size_t n = 0; struck; ++n) {
        fs::remove_all(run_dir / "checkpoints");
        Shim shim(run_dir);
        shim.arm(fault, n);
        const auto entry = write(run_dir, id, owned.state, 1, 0);
        struck = shim.struck();
        SCOPED_TRACE(str(to_text(fault), " at call ", n, ": ", shim.struck_call()));
        shim.disarm();
        if (!struck || is_harmless(fault)) {
          ASSERT_TRUE(entry) << entry.error().line();
        }
        if (entry) {
          Manifest manifest{id, state_digest(id.step, owned.state).hex(),         "{}",    "{}",
                            "", {spec_of(owned.state), hash_chunks(owned.state)}, {*entry}};
          ASSERT_TRUE(commit(run_dir, manifest));
          const auto loaded = load(directory_of(run_dir, id));
          ASSERT_TRUE(loaded) << loaded.error().line();
          ASSERT_EQ(loaded->storage, owned.storage);
        } else if (!fault.lasting) {
          ASSERT_TRUE(files_in(directory_of(run_dir, id)).empty());
        }
      }
    }
  }
}

TEST_F(CrashPoints, AnyCallOfAReaderFails_ItIsReportedOrTheBitsAreRight) {
  for (const Fault& fault : kFaults) {
    bool struck = true;
    for (std::size_t n = 0; struck; ++n) {
      start_again();
      Shim shim(run);
      shim.arm(fault, n);
      const auto loaded = load(directory_of(run, kOld));
      struck = shim.struck();
      SCOPED_TRACE(str(to_text(fault), " at call ", n, ": ", shim.struck_call()));
      if (!struck || is_harmless(fault)) {
        ASSERT_TRUE(loaded) << loaded.error().line();
      }
      if (loaded) {
        ASSERT_EQ(loaded->storage, state_of(kOld).storage);
      }
    }
  }
}

TEST_F(CrashPoints, PowerLostWhileOneIsSetAside_TheOthersStay) {
  start_again();
  std::optional<Shim> shim(run);
  ASSERT_TRUE(set_aside(run, kOld));
  const Journal journal = shim->journal();
  shim.reset();
  for (std::size_t operations = 0; operations <= journal.size(); ++operations) {
    ASSERT_EQ(flaw_of_disks(journal, operations, {kOldest}, 2, false), "");
  }
  EXPECT_EQ(list_committed(own(disk)), Ids{kOldest});
}

}  // namespace
}  // namespace rekindle::checkpoint
