// Writing, committing, listing and restoring checkpoints. docs/checkpoint-format.md is the format.
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

// What a writer reports when its shard is durable; travels to the coordinator, ends in the manifest.
struct ShardEntry {
  std::string file;  // "shard-00000-of-00004.h5"
  std::uint64_t bytes = 0;
  Hash128 frame;  // XXH3-128 of all bytes that are in no dataset
  std::vector<DatasetEntry> datasets;
};
std::string to_json(const ShardEntry& entry);
Result<ShardEntry> shard_entry_from_json(const std::string& text);

// What a state is: the tensors, and the hashes of their chunks.
struct Contents {
  StateSpec tensors;
  ChunkHashes chunks;
  friend bool operator==(const Contents&, const Contents&) = default;
};
std::string to_json(const Contents& contents);
Result<Contents> contents_from_json(const std::string& text);

struct Manifest {
  CheckpointId id;
  std::string digest;       // state_digest as hex, unanimous over the trainers
  std::string identity;     // JSON object: what makes the run this run
  std::string fingerprint;  // JSON object: what makes the bits
  std::string created;      // UTC
  Contents contents;
  std::vector<ShardEntry> shards;
};

// Between a writer and whoever wants to change the state that it reads.
struct Reading {
  std::function<void()> all_read;  // called once, from any thread, when the state may change again
  std::stop_token hurry;           // a stop is requested when somebody waits for that
  // If set, the caller hashes the state once more after all_read and before it changes, and this says whether
  // it was what `chunks` say. Called once, when the shard is durable; may wait. The state can be written from
  // where it lies then, and nothing of it is hashed here.
  std::function<bool()> still_as_hashed = {};
};

// Writes shard `shard` of `shards` into run_dir/checkpoints/ID/, durable and under its final name on return.
// Leaves nothing under the final name on failure. Fails when the bytes that it writes are not those that
// `chunks` are the hashes of. Once hurried, it has read the state in the time of a copy, however slow the
// storage is; if it writes from where the state lies, after 8 MiB have been written.
Result<ShardEntry> write_shard(const FilePath& run_dir, const CheckpointId& id, const State& state,
                               const ChunkHashes& chunks, int shards, int shard, const Reading& reading = {});
// Whether write_shard() failed because the state in memory is not what it was when it was hashed.
bool is_changed_state(const Error& error);

// The commit: writes the manifest beside the shards, fsyncs, renames. Refuses when a shard is missing from
// the list, the shards do not tile every tensor, or a file is not there with its size. Files of other nodes
// may be seen late: it waits for each up to `patience`.
Status commit(const FilePath& run_dir, const Manifest& manifest, std::chrono::milliseconds patience = {});

// Verifies its own checksum. Waits up to `patience` for a manifest that another node has written.
// ExitCode::kConfig: it is of another format version.
Result<Manifest> read_manifest(const FilePath& checkpoint_dir, std::chrono::milliseconds patience = {});
// Committed checkpoints (a manifest is there; not yet verified), newest (highest step, then term, generation)
// first.
Result<std::vector<CheckpointId>> find_committed(const FilePath& run_dir);
// The same for those who only show it: none if they cannot be listed.
std::vector<CheckpointId> list_committed(const FilePath& run_dir);
Result<bool> is_committed(const FilePath& run_dir, const CheckpointId& id);
FilePath directory_of(const FilePath& run_dir, const CheckpointId& id);

// Writes the name of a checkpoint that was committed to the file `note`. Storage may show new names late to
// other nodes, but what a file holds to whoever opens it (close-to-open consistency; source: nfs(5)): so they
// know what to wait for. Lost in a crash it costs them no more than that.
Status note_newest(const FilePath& note, const CheckpointId& id);
// Nothing if there is no note.
std::optional<CheckpointId> noted_newest(const FilePath& note);
// Waits until the noted checkpoint or a newer one is there, or it was set aside, or nobody wants to wait any
// more; returns it if it is missing even then. Nothing noted: nothing. Makes the note, empty, if there is
// none: so even a node that sees its name late learns whether there is.
std::optional<CheckpointId> await_newest(const FilePath& run_dir, const FilePath& note,
                                         std::chrono::milliseconds patience,
                                         const std::function<bool()>& tired = nullptr);

// Reads part_of(tensors, parts, part) into `state` (whose specs must equal the manifest's) and checks it
// against its checksums; what it has read is rubbish if it fails. Never calls libhdf5. Files of other nodes
// may be seen late: it waits for each up to `patience`. ExitCode::kConfig: `state` is another model's.
Status read_part(const FilePath& checkpoint_dir, const Manifest& manifest, int parts, int part,
                 const State& state, std::chrono::milliseconds patience = {});
// Whether reading failed because of what is in the checkpoint: a checksum, a size, a file that is not there.
// All else (I/O errors, another format or model) says nothing of its bytes.
bool is_damage(const Error& error);

// Every shard is there as a plain file with its size.
Status check_files(const FilePath& checkpoint_dir, const Manifest& manifest);
// Verifies every byte; error says which file is damaged, and where.
Status verify(const FilePath& checkpoint_dir, const Manifest& manifest);
// Whether a run has checkpoints, or had some that were set aside.
Result<bool> has_saved(const FilePath& run_dir);
// Moves a damaged checkpoint out of the way: renames its directory to NAME.damaged, or to NAME.damaged.2
// where that name is taken.
Status set_aside(const FilePath& run_dir, const CheckpointId& id);
// Deletes one checkpoint, committed or given up half-written; its manifest goes first. No error if it is not
// there.
Status discard(const FilePath& run_dir, const CheckpointId& id);
struct SweepPlan {
  CheckpointId newest;                               // just committed, or just read whole
  std::uint64_t keep = 1;                            // at least 1
  std::optional<std::uint64_t> best = std::nullopt;  // the newest of this step is kept besides
  std::vector<CheckpointId> spared = {};             // so are these, also if they do not look committed
  // Whatever generations before this one's have not committed is dead, whatever its step.
  std::optional<CheckpointId> dead_before = std::nullopt;
};
// Deletes committed checkpoints but for `newest` and the `keep` - 1 before it, and uncommitted directories
// that nobody writes any more: those of earlier steps, of terms up to its own, and of the same step, of
// earlier terms. What is of later steps stays and counts for nothing: it may be under way, whatever its term
// (a coordinator goes on with its predecessor's generation), or be what the run could not be restored from.
Status sweep(const FilePath& run_dir, const SweepPlan& plan);

}  // namespace rekindle::checkpoint
