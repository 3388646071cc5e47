#include "board/exposition.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <map>
#include <optional>

#include "base/clock.hpp"

namespace rekindle::board {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<std::pair<std::string, std::string>>;

constexpr double kSecond = 1000;  // milliseconds

// The families of all runs: each name once.
class Families {
 public:
  // Of the values that follow.
  void set_run(std::string run) { run_ = std::move(run); }

  void gauge(const char* name, const char* help, std::optional<double> value, const Labels& labels = {}) {
    if (!value) return;
    ClientMetric metric = labelled(labels);
    metric.gauge.value = *value;
    family(name, help, MetricType::Gauge).metric.push_back(std::move(metric));
  }
  void counter(const char* name, const char* help, double value, const Labels& labels = {}) {
    ClientMetric metric = labelled(labels);
    metric.counter.value = value;
    family(name, help, MetricType::Counter).metric.push_back(std::move(metric));
  }
  void histogram(const char* name, const char* help, const Durations& durations) {
    ClientMetric metric = labelled({});
    metric.histogram.sample_count = durations.count();
    metric.histogram.sample_sum = durations.sum();
    for (std::size_t i = 0; i < Durations::kBuckets; ++i)
      metric.histogram.bucket.push_back({durations.up_to(i), Durations::upper_bound(i)});
    metric.histogram.bucket.push_back({durations.count(), std::numeric_limits<double>::infinity()});
    family(name, help, MetricType::Histogram).metric.push_back(std::move(metric));
  }
  std::string text() const {
    std::vector<MetricFamily> all;
    for (const auto& [name, family] : families_) all.push_back(family);
    return prometheus::TextSerializer().Serialize(all);
  }

 private:
  MetricFamily& family(const char* name, const char* help, MetricType type) {
    MetricFamily& found = families_[name];
    found.name = name;
    found.help = help;
    found.type = type;
    return found;
  }
  ClientMetric labelled(const Labels& labels) const {
    ClientMetric metric;
    if (!run_.empty()) metric.label.push_back({"run", run_});
    for (const auto& [name, value] : labels) metric.label.push_back({name, value});
    return metric;
  }

  std::string run_;
  std::map<std::string, MetricFamily> families_;
};

std::optional<double> number_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string text_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> seconds_of(const std::optional<Milliseconds>& time) {
  if (!time) return std::nullopt;
  return static_cast<double>(*time) / kSecond;
}

void add_trainers(Families& families, const nlohmann::json& status) {
  std::map<std::string, double> states = {{"training", 0}, {"spare", 0}};
  const bool runs = text_in(status, "state") == "running";
  for (const nlohmann::json& trainer : status.value("trainers", nlohmann::json::array()))
    if (runs) ++states[trainer.value("rank", -1) >= 0 ? "training" : "spare"];
  for (const auto& [state, count] : states)
    families.gauge("rekindle_trainers", "Trainers that are there, by what they do.", count,
                   {{"state", state}});
}

void add_run(Families& families, RunPage& page) {
  const nlohmann::json& status = page.status();
  const Counts counts = page.counts();
  families.gauge("rekindle_step", "Completed optimizer steps.", number_in(status, "step"));
  families.gauge("rekindle_steps_goal", "Optimizer steps of the whole run.", number_in(status, "steps"));
  families.gauge("rekindle_loss", "Training loss of the newest step.", number_in(status, "loss"));
  families.gauge("rekindle_attempt", "Number of the newest attempt.", number_in(status, "attempt"));
  families.gauge("rekindle_up", "1 if the run goes on, 0 if no process of it is there.",
                 text_in(status, "state") == "running" || text_in(status, "state") == "starting" ? 1 : 0);
  families.gauge("rekindle_status_timestamp_seconds", "When the run has written its status.",
                 seconds_of(parse_utc(text_in(status, "updated"))));
  families.counter("rekindle_steps_total", "Steps that were made, those that were made again included.",
                   static_cast<double>(page.totals().steps().count()));
  families.histogram("rekindle_step_duration_seconds", "Time from update to update.", page.totals().steps());
  add_trainers(families, status);
  for (const char* cause : {"lost", "joined", "coordinator", "other"}) {
    const auto found = counts.recoveries.find(cause);
    families.counter("rekindle_recoveries_total", "How often the run went on with other processes.",
                     found == counts.recoveries.end() ? 0 : static_cast<double>(found->second),
                     {{"cause", cause}});
  }
  families.histogram("rekindle_recovery_duration_seconds",
                     "Time from an interruption to the first step after it.", counts.recovery_seconds);
  families.gauge("rekindle_checkpoint_timestamp_seconds", "When the newest checkpoint was complete.",
                 seconds_of(counts.saved_at));
  families.counter("rekindle_checkpoint_write_bytes_total", "Bytes of all checkpoints that were complete.",
                   static_cast<double>(counts.bytes_saved));
  families.counter("rekindle_attempts_total", "Attempts that began.", static_cast<double>(counts.attempts));
  families.counter("rekindle_requeues_total", "How often a Slurm job of the run was queued again.",
                   static_cast<double>(counts.requeues));
  families.gauge("rekindle_job_end_timestamp_seconds", "When the time limit of the Slurm job ends.",
                 seconds_of(counts.time_limit));
  families.gauge("rekindle_effective_training_ratio",
                 "Of the time since the run began, the part in which steps were made that count.",
                 page.training_ratio());
  families.gauge("rekindle_run_info", "Always 1.", 1,
                 {{"name", page.name()}, {"state", text_in(status, "state")}});
}

}  // namespace

std::string exposition(const std::vector<std::pair<std::string, RunPage*>>& runs) {
  Families families;
  for (const auto& [run, page] : runs) {
    families.set_run(run);
    add_run(families, *page);
  }
  return families.text();
}

}  // namespace rekindle::board
