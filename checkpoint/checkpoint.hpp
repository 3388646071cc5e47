// Writing, committing, listing and restoring checkpoints. Format: docs/checkpoint-format.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/file_path.hpp"
#include "base/result.hpp"
#include "checkpoint/chunks.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

namespace fs = std::filesystem;

// checkpoints/step-0000000123.t1.g2: step, term and generation; never reused.
struct CheckpointId {
  std::uint64_t step = 0, term = 0, generation = 0;
  std::string directory_name() const;
  static std::optional<CheckpointId> parse(std::string_view directory_name);
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy misreads defaulted comparisons
  friend auto operator<=>(const CheckpointId&, const CheckpointId&) = default;
};

struct DatasetEntry {
  std::string name;
  std::int64_t first_row = 0, rows = 0;
  std::uint64_t offset = 0, bytes = 0;  // in the file
};

// What a writer reports when its shard is durable. The coordinator puts the entry into the manifest.
struct ShardEntry {
  std::string file;  // "shard-00000-of-00004.h5"
  std::uint64_t bytes = 0;
  Hash128 frame;  // XXH3-128 of all bytes outside of datasets
  std::vector<DatasetEntry> datasets;
};
std::string to_json(const ShardEntry& entry);
Result<ShardEntry> shard_entry_from_json(const std::string& text);

// The tensors of a state, and the hashes of their chunks.
struct Contents {
  StateSpec tensors;
  ChunkHashes chunks;
  friend bool operator==(const Contents&, const Contents&) = default;
};
std::string to_json(const Contents& contents);
Result<Contents> contents_from_json(const std::string& text);

struct Manifest {
  CheckpointId id;
  std::string digest;       // state_digest as hex; all trainers reported the same digest
  std::string identity;     // JSON object: the settings that must not change during the run
  std::string fingerprint;  // JSON object: the software and hardware that the bits depend on
  std::string created;      // UTC
  Contents contents;
  std::vector<ShardEntry> shards;
};

// Coordinates a writer with the caller that wants to change the state.
struct Reading {
  std::function<void()> all_read;  // called once, from any thread, when the state may change again
  std::stop_token hurry;           // a stop is requested when the caller waits for all_read
  // If set, the caller hashes the state again after all_read and before changing it, and this function
  // returns whether that hash matched `chunks`. Called once, when the shard is durable; may block. With this
  // function, the writer writes the state in place, without a copy, and does not hash it.
  std::function<bool()> still_as_hashed = {};
  // Called after each block of 4 MiB at most that is written, by the thread that writes.
  std::function<void()> block_written = {};
};

// Writes shard `shard` of `shards` into run_dir/checkpoints/ID/, durable and under its final name on return.
// Leaves nothing under the final name on failure. Fails if the written bytes do not match `chunks`. After
// `hurry`, the writer reads the rest of the state within the time of a copy, even if the storage is slow. If
// it writes the state in place, it first completes up to 8 MiB of writes.
Result<ShardEntry> write_shard(const FilePath& run_dir, const CheckpointId& id, const State& state,
                               const ChunkHashes& chunks, int shards, int shard, const Reading& reading = {});
// The error is of kind kChangedState if the state in memory has changed since it was hashed.

// Storage may show files of other nodes late: waits up to `patience` for each shard of the manifest. If one
// does not come, commit() refuses the manifest.
void await_shards(const FilePath& run_dir, const Manifest& manifest, std::chrono::milliseconds patience);
// The commit: writes the manifest beside the shards, fsyncs, renames. Fails if a shard is not listed, if the
// shards do not cover every tensor exactly once, or if a file is missing or has a wrong size. Waits for
// nothing, so that the caller's last look at the terms is recent.
Status commit(const FilePath& run_dir, const Manifest& manifest);

// Verifies the manifest's checksum. Waits up to `patience` for a manifest that another node has written.
// ExitCode::kConfig: the manifest has another format version.
Result<Manifest> read_manifest(const FilePath& checkpoint_dir, std::chrono::milliseconds patience = {});
// Committed checkpoints (with a manifest, not yet verified), newest first (highest step, then term, then
// generation).
Result<std::vector<CheckpointId>> find_committed(const FilePath& run_dir);
// The same, for display only: empty if the checkpoints cannot be listed.
std::vector<CheckpointId> list_committed(const FilePath& run_dir);
Result<bool> is_committed(const FilePath& run_dir, const CheckpointId& id);
FilePath directory_of(const FilePath& run_dir, const CheckpointId& id);

// Writes the name of a committed checkpoint to the file `note`. Storage may show new names late to other
// nodes, but shows a file's content to every later open (close-to-open consistency; source: nfs(5)). So other
// nodes learn which checkpoint to wait for. If a crash loses the note, they only lose this information.
Status note_newest(const FilePath& note, const CheckpointId& id);
// Nullopt if there is no note.
std::optional<CheckpointId> noted_newest(const FilePath& note);
// Waits until the noted checkpoint or a newer one appears, or the noted one was set aside, or `tired` returns
// true. Returns the noted checkpoint if it is still missing, else nullopt (also if there is no note). Creates
// the note, empty, if it is missing: so a node that sees new names late still learns whether a note exists.
std::optional<CheckpointId> await_newest(const FilePath& run_dir, const FilePath& note,
                                         std::chrono::milliseconds patience,
                                         const std::function<bool()>& tired = nullptr);

// An error (ExitCode::kConfig) if no attempt could restore the newest checkpoint before somebody mends it:
// another user owns or may change its manifest or a shard, or the manifest has another format version. Damage
// is no error, because a run then goes back to an earlier checkpoint.
Status check_newest_usable(const FilePath& run_dir);

// Reads part_of(tensors, parts, part) into `state` (whose specs must equal the manifest's) and verifies the
// checksums. On failure the content of `state` is invalid. Never calls libhdf5. Storage may show files of
// other nodes late, so this waits up to `patience` for each file. `each_block` is called before each block
// of 2 MiB; the read ends with its error. ExitCode::kConfig: `state` is of another model.
Status read_part(const FilePath& checkpoint_dir, const Manifest& manifest, int parts, int part,
                 const State& state, std::chrono::milliseconds patience = {},
                 const std::function<Status()>& each_block = {});
// kDamage means wrong content: a checksum, a size, or a missing file. All other kinds (I/O errors, another
// format or model) mean that the bytes could not be judged.

// Checks that every shard is a regular file of the right size.
Status check_files(const FilePath& checkpoint_dir, const Manifest& manifest);
// Verifies every byte. The error contains the damaged file and the damaged part.
Status verify(const FilePath& checkpoint_dir, const Manifest& manifest);
// Whether a run has checkpoints, including checkpoints that were set aside.
Result<bool> has_saved(const FilePath& run_dir);
// Whether a checkpoint of a step after this one was set aside.
Result<bool> has_set_aside(const FilePath& run_dir, std::uint64_t after);
// Renames the directory of a damaged checkpoint to NAME.damaged, or to NAME.damaged.2 and so on if that name
// is in use.
Status set_aside(const FilePath& run_dir, const CheckpointId& id);
// Deletes one checkpoint, committed or incomplete. The manifest is deleted first. No error if the checkpoint
// does not exist.
Status discard(const FilePath& run_dir, const CheckpointId& id);
struct SweepPlan {
  CheckpointId newest;                               // just committed, or just read completely
  std::uint64_t keep = 1;                            // at least 1
  std::optional<std::uint64_t> best = std::nullopt;  // the newest checkpoint of this step is also kept
  std::vector<CheckpointId> pinned = {};             // kept, also if they do not look committed
  // Uncommitted checkpoints of generations before this one are dead, for any step.
  std::optional<CheckpointId> dead_before = std::nullopt;
};
// Deletes committed checkpoints except `newest` and the `keep` - 1 before it. Deletes uncommitted directories
// that no process writes any more: of earlier steps in terms up to newest's, and of the same step in earlier
// terms. Directories of later steps stay and do not count for `keep`: they may still be being written, in any
// term (a coordinator continues its predecessor's generation), or the run could not be restored from them.
Status sweep(const FilePath& run_dir, const SweepPlan& plan);

}  // namespace rekindle::checkpoint
