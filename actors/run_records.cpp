#include "actors/run_records.hpp"

#include <bit>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/terms.hpp"

namespace rekindle::actors {

using namespace protocol;

RunRecords::RunRecords(const run::Layout& layout, const Job& job, std::uint64_t term, std::uint64_t attempt)
    : layout_(layout),
      job_(job),
      metrics_(layout),
      attempts_(layout.attempts()),
      term_(term),
      attempt_(attempt > 0 ? attempt : run::next_attempt(layout)) {}

bool RunRecords::no_longer_in_charge() const {
  const auto term = run::term_in_charge(layout_, term_);
  return !term || *term != term_;
}

void RunRecords::warn_once(const Status& status) {
  if (status || warned_) return;
  warned_ = true;  // the run does not need records, so a full disk must not flood the log or stop the run
  log_warning(str("records are not written: ", status.error().line()));
}

// The supervisor of a Slurm job writes to this file, too. So the file is closed and opened again each time.
void RunRecords::record_attempt(const nlohmann::json& line) {
  later_.add([this, line] {
    attempts_.close();
    warn_once(attempts_.append(line));
  });
}

void RunRecords::begin(bool restarted, const run::Recorded& recorded) {
  const bool has_records = recorded.step > 0 || !checkpoint::has_saved(layout_.root()).value_or(true);
  gaps_.begin(recorded, has_records, !restarted);
  voided_ = recorded.voided;
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
    // A newer coordinator has gone back to a checkpoint, so these steps are no longer part of the run.
    if (!run::superseded(layout_, term_)) warn_once(metrics_.append(line));
  });
}

void RunRecords::rewind(std::uint64_t step) {
  if (last_.step > step) last_ = {};
  voided_.erase(voided_.upper_bound(step), voided_.end());
  gaps_.rewind(step);
  later_.add([this, step] {
    if (!no_longer_in_charge()) warn_once(metrics_.rewind(step));
  });
}

std::vector<std::string> RunRecords::record(const StepDone& done) {
  gaps_.on_step(done.step);
  last_ = done;
  nlohmann::json line = {{"step", done.step},
                         {"epoch", done.epoch},
                         {"loss", done.loss},
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
                         {"at", utc_now()}};
  for (const auto& [name, value] : done.metrics) line.emplace(name, value);
  if (done.gradient_norm >= 0) line["gradient_norm"] = done.gradient_norm;
  if (done.voided) {
    line["voided"] = true;
    voided_.insert(done.step);
  }
  append(line);
  std::vector<std::string> lines = {voided_line(), gaps_.take_reports() ? take_missing() : ""};
  std::erase(lines, "");
  return lines;
}

std::string RunRecords::voided_line() const {
  constexpr std::size_t kAll = 8;  // later ones are reported when their number has doubled
  if (!last_.voided || (voided_.size() > kAll && !std::has_single_bit(voided_.size()))) return "";
  return str("the gradient of step ", last_.step, " is not finite, so the step changed nothing (",
             counted(voided_.size(), "such step"), " in this run)");
}

std::string RunRecords::missing_lines() {
  flush();
  metrics_.add_unwritten(gaps_.missing());
  return take_missing();
}

std::string RunRecords::take_missing() {
  if (gaps_.missing().empty()) return "";
  const std::string steps = gaps_.missing().text();
  gaps_.missing().clear();  // report each gap only once
  return str(layout_.metrics().filename().string(), " has no line for ", steps);
}

void RunRecords::record(const Evaluated& evaluated) {
  nlohmann::json line = {{"step", evaluated.step},      {"epoch", evaluated.epoch},
                         {"test_loss", evaluated.loss}, {"test_count", evaluated.count},
                         {"attempt", attempt_},         {"at", utc_now()}};
  for (const auto& [name, value] : evaluated.metrics) line.emplace("test_" + name, value);
  append(line);
}

void RunRecords::set_aside(const std::string& checkpoint) {
  const auto id = checkpoint::CheckpointId::parse(checkpoint);
  if (!id) return;
  later_.add([this, id = *id] {
    if (no_longer_in_charge()) return;
    if (const Status status = checkpoint::set_aside(layout_.root(), id); !status)
      log_error(str(id.directory_name(), " could not be set aside: ", status.error().line()));
  });
}

void RunRecords::abandon(const GenerationId& generation, std::uint64_t step) {
  later_.add([this, id = checkpoint::CheckpointId{step, generation.term, generation.number}] {
    if (no_longer_in_charge()) return;
    // The previous coordinator may have committed this checkpoint just before its end.
    if (checkpoint::is_committed(layout_.root(), id).value_or(true)) return;
    warn_once(checkpoint::discard(layout_.root(), id));
  });
}

void RunRecords::show(const Coordinator& coordinator) {
  if (!shown_.end) write_status(coordinator, "running");
}

void RunRecords::show_end(const Coordinator& coordinator, int exit_code) {
  shown_.end = true;
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
  // At the end no trainer is left. The last trainers stay in the status, to show the run's use of resources.
  if (!trainers.empty()) shown_.trainers = std::move(trainers);
  const nlohmann::json status = {{"state", state},
                                 {"term", term_},
                                 {"attempt", attempt_},
                                 {"generation", to_text(coordinator.generation())},
                                 {"phase", to_text(coordinator.phase())},
                                 {"step", coordinator.step()},
                                 {"steps", job_.steps},
                                 {"epoch", last_.epoch},
                                 {"loss", last_.loss},
                                 {"voided_steps", voided_.size()},
                                 {"images_per_second", last_.images_per_second},
                                 {"trainers", shown_.trainers},
                                 {"updated", utc_now()}};
  if (!status_.put(status.dump(2) + "\n")) return;
  later_.add([this] {
    const std::string text = status_.take();
    // After a take-over, the new coordinator writes the status.
    if (!run::superseded(layout_, term_)) warn_once(replace_file_quickly(layout_.status(), text));
  });
}

}  // namespace rekindle::actors
