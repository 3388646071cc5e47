#include "actors/run_records.hpp"

#include <bit>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::actors {

using namespace protocol;

RunRecords::RunRecords(RecordWriter& writer, std::uint64_t attempt)
    : writer_(writer),
      metrics_(writer.layout()),
      attempts_(writer.layout().attempts()),
      attempt_(attempt > 0 ? attempt : run::next_attempt(writer.layout())) {}

// The supervisor of a Slurm job writes to this file, too. So the file is closed and opened again each time.
void RunRecords::record_attempt(const nlohmann::json& line) {
  writer_.add([this, line] {
    attempts_.close();
    writer_.warn_once(attempts_.append(line));
  });
}

void RunRecords::begin(bool restarted, const run::Recorded& recorded) {
  const bool has_records =
      recorded.step > 0 || !checkpoint::has_saved(writer_.layout().root()).value_or(true);
  gaps_.begin(recorded, has_records, !restarted);
  voided_ = recorded.voided;
  record_attempt({{"event", restarted ? "coordinator-restart" : "begin"},
                  {"attempt", attempt_},
                  {"term", writer_.term()},
                  {"host", host_name()},
                  {"at", utc_now()}});
  writer_.flush();
}

void RunRecords::end(int exit_code, const std::string& why, std::uint64_t step) {
  record_attempt({{"event", "end"},
                  {"attempt", attempt_},
                  {"term", writer_.term()},
                  {"step", step},
                  {"exit_code", exit_code},
                  {"why", why},
                  {"at", utc_now()}});
  writer_.add([this] {
    if (!writer_.superseded()) writer_.warn_once(metrics_.write_waiting());
  });
  writer_.flush();
}

void RunRecords::orphan(std::uint64_t step) {
  writer_.add([this, step] {
    writer_.warn_once(run::record_attempt(writer_.layout(), {{"event", "supervisor-lost"},
                                                             {"attempt", attempt_},
                                                             {"term", writer_.term()},
                                                             {"step", step},
                                                             {"at", utc_now()}}));
  });
  writer_.flush();
}

void RunRecords::append(const nlohmann::json& line) {
  writer_.add([this, line] {
    // A newer coordinator has gone back to a checkpoint, so these steps are no longer part of the run.
    if (!writer_.superseded()) writer_.warn_once(metrics_.append(line));
  });
}

void RunRecords::rewind(std::uint64_t step) {
  if (last_.step > step) last_ = {};
  voided_.erase(voided_.upper_bound(step), voided_.end());
  gaps_.rewind(step);
  writer_.add([this, step] {
    if (!writer_.no_longer_in_charge()) writer_.warn_once(metrics_.rewind(step));
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
  std::vector<std::string> lines = {voided_line(), gaps_.take_reports() ? take_missing() : "",
                                    writer_.take_warning()};
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
  writer_.flush();
  metrics_.add_unwritten(gaps_.missing());
  return take_missing();
}

std::string RunRecords::take_missing() {
  if (gaps_.missing().empty()) return "";
  const std::string steps = gaps_.missing().text();
  gaps_.missing().clear();  // report each gap only once
  return str(writer_.layout().metrics().filename().string(), " has no line for ", steps);
}

void RunRecords::record(const Evaluated& evaluated) {
  nlohmann::json line = {{"step", evaluated.step},      {"epoch", evaluated.epoch},
                         {"test_loss", evaluated.loss}, {"test_count", evaluated.count},
                         {"attempt", attempt_},         {"at", utc_now()}};
  for (const auto& [name, value] : evaluated.metrics) line.emplace("test_" + name, value);
  append(line);
}

}  // namespace rekindle::actors
