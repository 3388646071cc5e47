#include "actors/commits.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/listing.hpp"
#include "run/fencing.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

Result<std::optional<std::uint64_t>> best_checkpoint(const run::Layout& layout, const Job& job) {
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  return run::best_evaluated(layout, checkpoint::steps_of(committed), run::best_by(job.best_metric));
}

Result<checkpoint::Manifest> manifest_of(const Job& job, const CommitOrder& order) {
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
  return manifest;
}

// Fills in `left`: the checkpoints that are there then.
Status sweep(const run::Layout& layout, const Job& job, checkpoint::SweepPlan plan,
             std::vector<std::string>& left) {
  plan.keep = job.keep;
  if (job.keep_best) {
    REKINDLE_TRY(plan.best, best_checkpoint(layout, job));
  }
  Status swept = checkpoint::sweep(layout.root(), plan);
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  for (const checkpoint::CheckpointId& id : committed) left.push_back(id.directory_name());
  return swept;
}

Status sweep_after_commit(const run::Layout& layout, const Job& job, const CommitOrder& order,
                          std::vector<std::string>& left) {
  checkpoint::SweepPlan plan;
  plan.newest = {order.step, order.term, order.generation};
  for (const std::string& name : order.pinned) {
    if (const auto id = checkpoint::CheckpointId::parse(name)) plan.pinned.push_back(*id);
  }
  return sweep(layout, job, std::move(plan), left);
}

// The run directory, for the commit of one checkpoint.
class CommitFiles final : public run::CommitStorage {
 public:
  CommitFiles(const run::Layout& layout, const Job& job, const CommitOrder& order,
              const checkpoint::Manifest& manifest, CommitReply& reply)
      : layout_(layout), job_(job), order_(order), manifest_(manifest), reply_(reply) {}

  Result<std::uint64_t> term_in_charge() override { return run::term_in_charge(layout_, order_.own_term); }
  bool superseded() override { return run::superseded(layout_, order_.own_term); }
  void await_shards() override { checkpoint::await_shards(layout_.root(), manifest_, kNamesAreSeenWithin); }
  Status write_manifest() override { return checkpoint::commit(layout_.root(), manifest_); }
  Status note_newest() override { return checkpoint::note_newest(layout_.newest_checkpoint(), manifest_.id); }
  Status sweep() override { return sweep_after_commit(layout_, job_, order_, reply_.committed); }

 private:
  const run::Layout& layout_;
  const Job& job_;
  const CommitOrder& order_;
  const checkpoint::Manifest& manifest_;
  CommitReply& reply_;
};

}  // namespace

SweepReply sweep_after_restore(const run::Layout& layout, const Job& job, const SweepOrder& order) {
  SweepReply reply;
  const auto restored = checkpoint::CheckpointId::parse(order.restored);
  const auto in_charge = run::term_in_charge(layout, order.own_term);
  if (!restored || !in_charge || *in_charge != order.own_term) return reply;
  checkpoint::SweepPlan plan = checkpoint::plan_after_restore(
      *restored, {0, order.term, order.generation}, checkpoint::noted_newest(layout.newest_checkpoint()));
  if (auto swept = sweep(layout, job, std::move(plan), reply.committed); !swept)
    log_warning(str("what earlier attempts left stays: ", swept.error().line()));
  return reply;
}

CommitReply commit(const run::Layout& layout, const Job& job, const CommitOrder& order) {
  CommitReply reply{order.term, order.generation, order.step, 0, "", order.fingerprint, "", {}};
  reply.checkpoint = checkpoint::CheckpointId{order.step, order.term, order.generation}.directory_name();
  const auto manifest = manifest_of(job, order);
  if (!manifest) {
    reply.error = manifest.error().line();
    return reply;
  }
  CommitFiles storage(layout, job, order, *manifest, reply);
  run::FencedCommit fenced(storage, order.own_term);
  fenced.run();
  reply.higher_term = fenced.higher_term();
  if (!fenced.committed()) reply.error = fenced.committed().error().line();
  if (!fenced.noted())
    log_warning(str("the next attempt may see ", reply.checkpoint, " late: ", fenced.noted().error().line()));
  if (!fenced.swept()) log_warning(str("old checkpoints stay: ", fenced.swept().error().line()));
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
    const bool committed = checkpoint::is_committed(writer.layout().root(), id).value_or(true);
    const auto noted = checkpoint::noted_newest(writer.layout().newest_checkpoint());
    if (!checkpoint::may_abandon(id, committed, noted)) return;
    writer.warn_once(checkpoint::discard(writer.layout().root(), id));
  });
}

Committer::behavior_type committer(Committer::pointer, const run::Layout& layout, const protocol::Job& job,
                                   RecordWriter* writer) {
  return {[layout, job, writer](const CommitOrder& order) {
            writer->flush();  // commit() reads the evaluations to choose the best checkpoint
            return commit(layout, job, order);
          },
          [layout, job, writer](const SweepOrder& order) {
            writer->flush();
            return sweep_after_restore(layout, job, order);
          },
          [layout](const TermCheck& check) {
            return TermCheckReply{run::term_in_charge(layout, check.term).value_or(check.term)};
          },
          [layout](const StopCheck&) { return StopCheckReply{is_file(layout.stop_request())}; }};
}

}  // namespace rekindle::actors
