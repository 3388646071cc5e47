// Commits of checkpoints, and the removal of old ones. The functions block on storage: the committer's thread
// calls them.
#pragma once

#include "actors/interfaces.hpp"
#include "actors/record_writer.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

// Commits a checkpoint and removes old ones (run/fencing.hpp has the order). If the best checkpoint is not
// known, nothing is removed.
CommitReply commit(const run::Layout& layout, const protocol::Job& job, const CommitOrder& order);

// Removes what killed attempts have left, after the checkpoint that the run continued from was read
// completely.
SweepReply sweep_after_restore(const run::Layout& layout, const protocol::Job& job, const SweepOrder& order);

// The actor whose thread blocks.
Committer::behavior_type committer(Committer::pointer self, const run::Layout& layout,
                                   const protocol::Job& job, RecordWriter* writer);

// In the writer's thread, if this coordinator is still in charge: takes a damaged checkpoint out of use;
// removes the files of a checkpoint that was never committed.
void set_aside_later(RecordWriter& writer, const std::string& checkpoint);
void abandon_later(RecordWriter& writer, const protocol::GenerationId& generation, std::uint64_t step);

}  // namespace rekindle::actors
