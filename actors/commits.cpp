#include "actors/commits.hpp"

#include <set>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

Result<std::optional<std::uint64_t>> best_checkpoint(const run::Layout& layout) {
  std::set<std::uint64_t> steps;
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  for (const checkpoint::CheckpointId& id : committed) steps.insert(id.step);
  return run::best_evaluated(layout, steps);
}

// `higher_term`: where it is not this one's any more.
Status check_term(const run::Layout& layout, std::uint64_t own_term, std::uint64_t& higher_term) {
  REKINDLE_TRY(const std::uint64_t term, run::term_in_charge(layout, own_term));
  if (term == own_term) return {};
  higher_term = term;
  return fail(str("term ", term, " has taken over"));
}

Status commit_manifest(const run::Layout& layout, const Job& job, const CommitOrder& order,
                       CommitReply& reply) {
  checkpoint::Manifest manifest;
  manifest.id = {order.step, order.term, order.generation};
  manifest.digest = order.digest;
  manifest.identity = identity_of(job).dump();
  manifest.fingerprint = order.fingerprint;
  manifest.created = utc_now();
  REKINDLE_TRY(manifest.contents, checkpoint::contents_from_json(order.tensors));
  for (const std::string& shard : order.shards) {
    REKINDLE_TRY(checkpoint::ShardEntry entry, checkpoint::shard_entry_from_json(shard));
    manifest.shards.push_back(std::move(entry));
  }
  REKINDLE_CHECK(check_term(layout, order.own_term, reply.higher_term));
  return checkpoint::commit(layout.root(), manifest, kNamesAreSeenWithin);
}

// Fills in `left`: the checkpoints that are there then.
Status sweep(const run::Layout& layout, const Job& job, checkpoint::SweepPlan plan,
             std::vector<std::string>& left) {
  plan.keep = job.keep;
  if (job.keep_best) {
    REKINDLE_TRY(plan.best, best_checkpoint(layout));
  }
  Status swept = checkpoint::sweep(layout.root(), plan);
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  for (const checkpoint::CheckpointId& id : committed) left.push_back(id.directory_name());
  return swept;
}

}  // namespace

Status sweep(const run::Layout& layout, const Job& job, const CommitOrder& order, CommitReply& reply) {
  REKINDLE_CHECK(check_term(layout, order.own_term, reply.higher_term));
  checkpoint::SweepPlan plan;
  plan.newest = {order.step, order.term, order.generation};
  for (const std::string& name : order.pinned) {
    if (const auto id = checkpoint::CheckpointId::parse(name)) plan.pinned.push_back(*id);
  }
  return sweep(layout, job, std::move(plan), reply.committed);
}

SweepReply sweep_after_restore(const run::Layout& layout, const Job& job, const SweepOrder& order) {
  SweepReply reply;
  const auto restored = checkpoint::CheckpointId::parse(order.restored);
  std::uint64_t higher_term = 0;
  if (!restored || !check_term(layout, order.own_term, higher_term)) return reply;
  checkpoint::SweepPlan plan;
  plan.newest = *restored;
  plan.dead_before = checkpoint::CheckpointId{0, order.term, order.generation};
  // Committed for certain, even where its manifest is not to be seen for a while.
  if (const auto noted = checkpoint::noted_newest(layout.newest_checkpoint())) plan.pinned.push_back(*noted);
  if (auto swept = sweep(layout, job, std::move(plan), reply.committed); !swept)
    log_warning(str("what earlier attempts left stays: ", swept.error().line()));
  return reply;
}

CommitReply commit(const run::Layout& layout, const Job& job, const CommitOrder& order) {
  CommitReply reply{order.term, order.generation, order.step, 0, "", order.fingerprint, "", {}};
  const checkpoint::CheckpointId id{order.step, order.term, order.generation};
  reply.checkpoint = id.directory_name();
  if (auto status = commit_manifest(layout, job, order, reply); !status) {
    reply.error = status.error().line();
    return reply;
  }
  // Whoever has taken over meanwhile has its own to note.
  if (run::superseded(layout, order.own_term)) return reply;
  if (auto noted = checkpoint::note_newest(layout.newest_checkpoint(), id); !noted)
    log_warning(str("the next attempt may see ", reply.checkpoint, " late: ", noted.error().line()));
  if (auto swept = sweep(layout, job, order, reply); !swept)
    log_warning(str("old checkpoints stay: ", swept.error().line()));
  return reply;
}

void set_aside_later(RecordWriter& writer, const std::string& checkpoint) {
  const auto id = checkpoint::CheckpointId::parse(checkpoint);
  if (!id) return;
  writer.add([&writer, id = *id] {
    if (writer.no_longer_in_charge()) return;
    if (const Status status = checkpoint::set_aside(writer.layout().root(), id); !status)
      log_error(str(id.directory_name(), " could not be set aside: ", status.error().line()));
  });
}

void abandon_later(RecordWriter& writer, const protocol::GenerationId& generation, std::uint64_t step) {
  writer.add([&writer, id = checkpoint::CheckpointId{step, generation.term, generation.number}] {
    if (writer.no_longer_in_charge()) return;
    // The previous coordinator may have committed this checkpoint just before its end.
    if (checkpoint::is_committed(writer.layout().root(), id).value_or(true)) return;
    writer.warn_once(checkpoint::discard(writer.layout().root(), id));
  });
}

}  // namespace rekindle::actors
