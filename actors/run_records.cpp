#include "actors/run_records.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "protocol/job_reader.hpp"
#include "run/terms.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

// The learning rate may have been changed on purpose since (--change-lr); nothing else may differ.
Status check_identity(const Job& job, const checkpoint::Manifest& manifest) {
  const std::string source = str("the identity of checkpoint ", manifest.id.directory_name());
  REKINDLE_TRY(nlohmann::json theirs, identity_from_text(manifest.identity, source));
  const nlohmann::json ours = identity_of(job);
  const bool same_rates = rates_until(theirs, manifest.id.step) == rates_until(ours, manifest.id.step);
  take_rates(theirs, ours);
  const std::string key = same_rates ? first_difference(theirs, ours) : "lr";
  if (key.empty()) return {};
  return fail(
      ExitCode::kConfig,
      str("checkpoint ", manifest.id.directory_name(), " belongs to another run: its ", key, " differs"),
      "use the same options, or another --run-dir");
}

}  // namespace

Result<CoordinatorConfig> survey(const run::Layout& layout, const Job& job, std::uint64_t term,
                                 run::Recorded* of_metrics) {
  CoordinatorConfig config;
  config.job = job;
  config.term = term;
  config.gather_time = Time(static_cast<std::int64_t>(job.gather_time_ms));
  config.lost_after = Time(static_cast<std::int64_t>(job.lost_after_ms));
  config.hang_after = Time(static_cast<std::int64_t>(job.hang_after_ms));
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  for (const checkpoint::CheckpointId& id : committed) {
    if (id.step > job.steps) continue;  // --steps was lowered below it
    Restorable restorable{id.directory_name(), id.step, ""};
    // A manifest that cannot be read is found out by the trainers that try it; one of another format version
    // is an error, for nothing is wrong with that checkpoint.
    const auto manifest = checkpoint::read_manifest(checkpoint::directory_of(layout.root(), id));
    if (!manifest && manifest.error().code == ExitCode::kConfig) return forward_error(manifest.error());
    if (manifest) {
      restorable.fingerprint = manifest->fingerprint;
      if (config.restorable.empty())
        config.unsaved = age_of(manifest->created).value_or(std::chrono::seconds(0));
      REKINDLE_CHECK(check_identity(job, *manifest));
    }
    config.restorable.push_back(std::move(restorable));
  }
  run::Recorded recorded = run::recorded(layout);
  config.evaluated = recorded.evaluated;
  config.recorded_step = recorded.step;
  if (of_metrics != nullptr) *of_metrics = std::move(recorded);
  return config;
}

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
  for (const std::string& name : order.spared) {
    if (const auto id = checkpoint::CheckpointId::parse(name)) plan.spared.push_back(*id);
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
  if (const auto noted = checkpoint::noted_newest(layout.newest_checkpoint())) plan.spared.push_back(*noted);
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

RunRecords::RunRecords(const run::Layout& layout, const Job& job, std::uint64_t term, std::uint64_t attempt)
    : layout_(layout),
      job_(job),
      metrics_(layout),
      attempts_(layout.attempts()),
      term_(term),
      attempt_(attempt > 0 ? attempt : run::next_attempt(layout)) {}

bool RunRecords::history() const {
  const auto term = run::term_in_charge(layout_, term_);
  return !term || *term != term_;
}

void RunRecords::warn_once(const Status& status) {
  if (status || warned_) return;
  warned_ = true;  // records are for people: a full disk must not flood the log or stop the run
  log_warning(str("records are not written: ", status.error().line()));
}

// The supervisor of a Slurm job writes there, too: what it left is looked at each time.
void RunRecords::record_attempt(const nlohmann::json& line) {
  later_.add([this, line] {
    attempts_.close();
    warn_once(attempts_.append(line));
  });
}

void RunRecords::begin(bool restarted, const run::Recorded& recorded) {
  // A run that goes on from a checkpoint and has no records has no gaps either: an audit is one.
  if (recorded.step > 0 || !checkpoint::has_saved(layout_.root()).value_or(true))
    newest_recorded_ = recorded.step;
  missing_ = recorded.missing;
  tell_missing_ = !restarted;
  record_attempt({{"event", restarted ? "coordinator-restart" : "begin"},
                  {"attempt", attempt_},
                  {"term", term_},
                  {"host", host_name()},
                  {"at", utc_now()}});
  flush();
}

void RunRecords::end(int exit_code, const std::string& why, std::uint64_t step) {
  record_attempt({{"event", "end"},
                  {"attempt", attempt_},
                  {"term", term_},
                  {"step", step},
                  {"exit_code", exit_code},
                  {"why", why},
                  {"at", utc_now()}});
  later_.add([this] {
    if (!run::superseded(layout_, term_)) warn_once(metrics_.write_waiting());
  });
  flush();
}

void RunRecords::orphan(std::uint64_t step) {
  later_.add([this, step] {
    warn_once(run::record_attempt(layout_, {{"event", "supervisor-lost"},
                                            {"attempt", attempt_},
                                            {"term", term_},
                                            {"step", step},
                                            {"at", utc_now()}}));
  });
  flush();
}

void RunRecords::append(const nlohmann::json& line) {
  later_.add([this, line] {
    // The one after this coordinator has gone back to a checkpoint, and these lines are of no run's steps.
    if (!run::superseded(layout_, term_)) warn_once(metrics_.append(line));
  });
}

void RunRecords::rewind(std::uint64_t step) {
  if (last_.step > step) last_ = {};
  missing_.erase_after(step);
  if (newest_recorded_) newest_recorded_ = std::min(*newest_recorded_, step);
  later_.add([this, step] {
    if (!history()) warn_once(metrics_.rewind(step));
  });
}

std::string RunRecords::record(const StepDone& done) {
  if (newest_recorded_ && done.step > *newest_recorded_)
    missing_.insert(*newest_recorded_ + 1, done.step - 1);
  newest_recorded_ = std::max(newest_recorded_.value_or(0), done.step);
  missing_.erase(done.step);
  last_ = done;
  append({{"step", done.step},
          {"epoch", done.epoch},
          {"loss", done.loss},
          {"accuracy", done.accuracy},
          {"lr", done.lr},
          {"images_per_second", done.images_per_second},
          {"trainers", done.trainers},
          {"generation", to_text(done.generation)},
          {"attempt", attempt_},
          {"step_ms", done.step_ms},
          {"data_ms", done.data_ms},
          {"compute_ms", done.compute_ms},
          {"exchange_ms", done.exchange_ms},
          {"update_ms", done.update_ms},
          {"checkpoint_ms", done.checkpoint_ms},
          {"at", utc_now()}});
  return std::exchange(tell_missing_, false) ? take_missing() : "";
}

std::string RunRecords::missing_lines() {
  flush();
  metrics_.add_unwritten(missing_);
  return take_missing();
}

std::string RunRecords::take_missing() {
  if (missing_.empty()) return "";
  const std::string steps = missing_.text();
  missing_.clear();  // once
  return str(layout_.metrics().filename().string(), " has no line for ", steps);
}

void RunRecords::record(const Evaluated& evaluated) {
  append({{"step", evaluated.step},
          {"epoch", evaluated.epoch},
          {"test_loss", evaluated.loss},
          {"test_accuracy", evaluated.accuracy},
          {"test_images", evaluated.count},
          {"attempt", attempt_},
          {"at", utc_now()}});
}

void RunRecords::set_aside(const std::string& checkpoint) {
  const auto id = checkpoint::CheckpointId::parse(checkpoint);
  if (!id) return;
  later_.add([this, id = *id] {
    if (history()) return;
    if (const Status status = checkpoint::set_aside(layout_.root(), id); !status)
      log_error(str(id.directory_name(), " could not be set aside: ", status.error().line()));
  });
}

void RunRecords::abandon(const GenerationId& generation, std::uint64_t step) {
  later_.add([this, id = checkpoint::CheckpointId{step, generation.term, generation.number}] {
    if (history()) return;
    // The coordinator before this one may have committed it over its last words.
    if (checkpoint::is_committed(layout_.root(), id).value_or(true)) return;
    warn_once(checkpoint::discard(layout_.root(), id));
  });
}

void RunRecords::show(const Coordinator& coordinator) {
  if (!end_shown_) write_status(coordinator, "running");
}

void RunRecords::show_end(const Coordinator& coordinator, int exit_code) {
  end_shown_ = true;
  const bool saved = exit_code == static_cast<int>(ExitCode::kSaved) ||
                     exit_code == static_cast<int>(ExitCode::kInterrupted);
  write_status(coordinator, exit_code == 0 ? "finished" : saved ? "saved" : "failed");
}

void RunRecords::write_status(const Coordinator& coordinator, const std::string& state) {
  nlohmann::json trainers = nlohmann::json::array();
  for (const auto& [name, trainer] : coordinator.trainers()) {
    trainers.push_back({{"trainer", name},
                        {"rank", trainer.rank},
                        {"host", trainer.ready.host},
                        {"device", trainer.ready.device},
                        {"pid", trainer.ready.pid},
                        {"phase", to_text(trainer.beat.phase)},
                        {"step", trainer.beat.step},
                        {"peak_pss_bytes", trainer.peak_pss_bytes}});
  }
  // At the end nobody is left; the last that were there still tell what the run took.
  if (!trainers.empty()) shown_trainers_ = std::move(trainers);
  const nlohmann::json status = {{"state", state},
                                 {"term", term_},
                                 {"attempt", attempt_},
                                 {"generation", to_text(coordinator.generation())},
                                 {"phase", to_text(coordinator.phase())},
                                 {"step", coordinator.step()},
                                 {"steps", job_.steps},
                                 {"epoch", last_.epoch},
                                 {"loss", last_.loss},
                                 {"images_per_second", last_.images_per_second},
                                 {"trainers", shown_trainers_},
                                 {"updated", utc_now()}};
  const std::scoped_lock lock(shown_mutex_);
  const bool waits = !std::exchange(to_show_, status.dump(2) + "\n").empty();
  if (waits) return;
  later_.add([this] {
    std::string text;
    {
      const std::scoped_lock newest(shown_mutex_);
      text = std::exchange(to_show_, "");
    }
    // Whoever has taken over says what the run is doing.
    if (!run::superseded(layout_, term_)) warn_once(replace_file_quickly(layout_.status(), text));
  });
}

}  // namespace rekindle::actors
