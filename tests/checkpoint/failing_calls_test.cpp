// Every file system call of writing, committing, sweeping and reading may fail. The failure is reported or
// corrected, and the run goes on.
#include <fcntl.h>

#include <optional>

#include "crash_points_fixture.hpp"

namespace rekindle::checkpoint {
namespace {

using Kind = Fault::Kind;

Result<ShardEntry> write_copied_shard(const FilePath& run, const CheckpointId& id, const State& state,
                                      int shards, int shard) {
  return write_shard(run, id, state, shards, shard);
}

bool opens_direct(const fs::path& file) {
  const Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_DIRECT, 0600));
  return fd.get() >= 0;
}

bool has_temporary_files(const fs::path& directory) {
  return std::ranges::any_of(files_in(directory),
                             [](const std::string& name) { return name.find(".tmp.") != std::string::npos; });
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

// Interrupted calls, and calls that did only a part of the work, are not failures.
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
        ASSERT_TRUE(swept || fault.error == EINTR)
            << swept.error().line();  // the next sweep removes the rest
      }
      if (!written && !fault.lasting) {
        ASSERT_FALSE(has_temporary_files(directory_of(run, kNew)));
      }
      const Ids promised = written ? Ids{kOld, kNew} : Ids{kOldest, kOld};
      ASSERT_EQ(flaw(run, promised), "");
      const Journal failed = shim->journal();
      if (!written && n % 2 == 0 && !read_manifest(directory_of(run, kNew))) {
        ASSERT_TRUE(discard(own(run), kNew));  // the next sweep must also work without the removal
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

// Network storage may say of a file that is there that what it knows of the file is out of date.
TEST_F(CrashPoints, AnyLookOfASweepIsStale_NoCommittedCheckpointIsDeleted) {
  bool struck = true;
  for (std::size_t n = 0; struck; ++n) {
    start_again();
    Shim shim(run);
    shim.arm({Kind::kRefused, ESTALE}, n);
    std::ignore = sweep(own(run), {kOld, kKeep});
    struck = shim.struck();
    SCOPED_TRACE(str("stale at call ", n, ": ", shim.struck_call()));
    shim.disarm();
    ASSERT_EQ(flaw(run, {kOldest, kOld}), "");
  }
}

// Storage may refuse direct access at either of two calls.
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
    // If the storage refuses to open a file with O_DIRECT, no transfer with O_DIRECT happens.
    EXPECT_TRUE(shim.refused_direct() || (where == NoDirect::kAtTransfer && !opens_direct(run / "probe")));
  }
}

// Large blocks are written past the page cache, which can fail in other ways.
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

}  // namespace
}  // namespace rekindle::checkpoint
