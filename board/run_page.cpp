#include "board/run_page.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "board/json_text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/status_file.hpp"
#include "run/terms.hpp"
#include "view/runs.hpp"

namespace rekindle::board {
namespace {

constexpr std::size_t kMostWarnings = 50, kMostTrainers = 500, kLongestLine = 1000;
constexpr std::uint64_t kLogBytes = std::uint64_t{1} << 18;  // of each log, from its end
constexpr std::uint64_t kSlice = std::uint64_t{4} << 20;     // of metrics.jsonl
constexpr std::chrono::milliseconds kPatience{300};          // then the rest comes with the next reading
constexpr std::uint64_t kRecentSteps = 100;
constexpr std::array kParts = {"step", "data", "compute", "exchange", "update", "checkpoint"};
constexpr std::array kTrainerKeys = {"trainer",
                                     "rank",
                                     "host",
                                     "device",
                                     "gpu",
                                     "pid",
                                     "phase",
                                     "step",
                                     "slow",
                                     "cpu_percent",
                                     "memory_bytes",
                                     "peak_pss_bytes",
                                     "gpu_used_bytes",
                                     "gpu_total_bytes",
                                     "gpu_busy_percent"};
constexpr std::size_t kMostNews = std::size_t{1} << 18;  // bytes of events that nobody has taken
constexpr std::uint64_t kNone = 0;

// What a page knows of the state by one word.
std::string word_of(const std::string& state) { return state.starts_with("ended without") ? "lost" : state; }

// Untrusted text: no longer than a line, and nothing that moves a cursor.
std::string line_of(const std::string& text) { return printable(text.substr(0, kLongestLine)); }

nlohmann::json clean(const nlohmann::json& value) {
  if (value.is_string()) return line_of(value.get<std::string>());
  if (value.is_primitive()) return value;
  return nullptr;
}

std::string event_text(const char* kind, const nlohmann::json& data) {
  return str("event: ", kind, "\ndata: ", json_text(data), "\n\n");
}

}  // namespace

RunPage::Seen::Seen(const run::Layout& layout)
    : history(layout), events(layout, view::RunEvents::From::kBeginning), logs(layout, kLogBytes) {
  history.on_news([this](std::string_view metric, const view::Point& point) {
    if (metric == "step_ms" && complete) totals.add(point.value);
  });
}

RunPage::RunPage(std::filesystem::path directory, const std::string& name)
    : directory_(std::move(directory)),
      name_(printable(name)),
      layout_(directory_, Trust::kForeign),
      seen_(std::make_unique<Seen>(layout_)) {}

bool RunPage::read(Amount amount) {
  problem_.clear();
  behind_ = true;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  bool more = read_slice();
  while (more && amount != Amount::kSlice && std::chrono::steady_clock::now() < until) more = read_slice();
  read_status();
  if (amount != Amount::kSlice) read_warnings();
  behind_ = more;
  if (!more) read_steps();
  complete_status();
  return !more;
}

// What open pages get when it changes, beside what status.json has.
void RunPage::complete_status() {
  status_["problem"] = printable(problem_);
  status_["step_ms"] = step_times_;
  status_["training_ratio"] = nullptr;
  if (const auto ratio = training_ratio()) status_["training_ratio"] = std::round(*ratio * 1000) / 1000;
}

// Of each file; whether there is more.
bool RunPage::read_slice() {
  const auto events = read_events();  // first, because they say that this is a new run
  const auto steps = seen_->history.read_new(kSlice);
  if (!events) problem_ = events.error().line();
  if (!steps) problem_ = steps.error().line();
  seen_->failed = !events || !steps;
  return (events && *events) || (steps && *steps);
}

void RunPage::read_steps() {
  // After an error the history lacks what is in the file.
  if (!seen_->failed && !std::exchange(seen_->complete, true)) {
    const auto all =
        seen_->history.curves({.names = {"step_ms"}, .range = {}, .points = view::History::kMostBuckets});
    if (all && (*all)["curves"].contains("step_ms"))
      seen_->totals.begin((*all)["curves"]["step_ms"], counts().steps_lost);
  }
  view::News news = seen_->history.take_news();
  if (news.rewound_to) news_.steps += event_text("rewound", {{"step", *news.rewound_to}});
  if (!news.points.empty()) news_.steps += event_text("status", {{"points", std::move(news.points)}});
  news_.lacks_values = news_.lacks_values || news.incomplete;
  // Nobody takes them, or not in time: a page then gets everything again.
  if (news_.steps.size() <= kMostNews) return;
  news_.steps.clear();
  news_.lacks_values = true;
}

std::string RunPage::take_events() {
  std::string events = std::exchange(news_.steps, {});
  nlohmann::json difference = nlohmann::json::object();
  for (const auto& [key, value] : status_.items())
    if (!news_.status.contains(key) || news_.status[key] != value) difference[key] = value;
  for (const auto& [key, value] : news_.status.items())
    if (!status_.contains(key)) difference[key] = nullptr;  // gone
  news_.status = status_;
  if (!difference.empty()) events += event_text("status", difference);
  const bool changed = std::exchange(news_.changed, false);
  if (std::exchange(news_.lacks_values, false))
    events += event_text("changed", {{"curves", true}});
  else if (changed)
    events += event_text("changed", nlohmann::json::object());
  return events;
}

void RunPage::read_status() {
  const auto status = run::read_status(layout_);
  const auto holder = run::newest_term(layout_);
  if (!status || !holder) {
    problem_ = (status ? holder.error() : status.error()).line();
    return;
  }
  nlohmann::json made = nlohmann::json::object();
  made["state"] = word_of(view::shown_state(layout_, view::state_of(*status, *holder), *holder));
  for (const char* key : {"attempt", "step", "steps", "epoch", "loss", "voided_steps", "images_per_second",
                          "phase", "generation", "updated", "end"}) {
    const auto found = status->find(key);
    if (found != status->end()) made[key] = clean(*found);
  }
  nlohmann::json trainers = nlohmann::json::array();
  if (const auto list = status->find("trainers"); list != status->end() && list->is_array()) {
    for (const nlohmann::json& trainer : *list) {
      if (!trainer.is_object() || trainers.size() >= kMostTrainers) continue;
      nlohmann::json one = nlohmann::json::object();
      for (const char* key : kTrainerKeys)
        if (const auto found = trainer.find(key); found != trainer.end()) one[key] = clean(*found);
      if (made["state"] != "running") one["phase"] = "ended";
      trainers.push_back(std::move(one));
    }
  }
  made["trainers"] = std::move(trainers);
  const std::uint64_t step = made.value("step", kNone), steps = made.value("steps", kNone);
  read_step_times();
  made["seconds_left"] = nullptr;
  if (made["state"] == "running" && step_times_.contains("step") && steps >= step)
    made["seconds_left"] = static_cast<double>(steps - step) * step_times_["step"].get<double>() / 1000;
  status_ = std::move(made);
}

Result<bool> RunPage::read_events() {
  REKINDLE_TRY(const view::RunEvents::Some fresh, seen_->events.read_some());
  seen_->events_anew = seen_->events_anew || fresh.anew;
  if (fresh.events.empty()) return fresh.more;
  if (std::exchange(seen_->events_anew, false)) begin_anew(fresh.events.front());
  for (const view::RunEvent& event : fresh.events) seen_->story.add(event);
  news_.changed = true;
  return fresh.more;
}

// events.jsonl was written anew: for a new run in this directory, or by a person who has edited the file.
void RunPage::begin_anew(const view::RunEvent& first) {
  const bool is_new =
      first.kind == "started" && first.attempt == 1 && parse_utc(first.at) != seen_->story.began();
  if (!is_new) {
    seen_->counted = counts();
    seen_->story = {};
    return;
  }
  auto seen = std::make_unique<Seen>(layout_);
  seen->events = std::move(seen_->events);
  seen_ = std::move(seen);
  step_times_of_ = 0;
  news_.steps = event_text("rewound", {{"step", 0}});
}

void RunPage::read_warnings() {
  const auto lines = seen_->logs.read_new(std::size_t{10} * kMostWarnings);
  if (!lines) return;  // a run that has not begun has no logs
  for (const view::LogLine& line : *lines) {
    if (line.level != "warning" && line.level != "error") continue;
    news_.changed = true;
    // Time and level have columns of their own.
    const std::string level = str(" ", line.level, " ");
    const std::size_t from = line.text.find(level) + level.size();
    seen_->warnings.push_back(
        {.time = line.time, .level = line.level, .text = line.text.substr(from, kLongestLine)});
    if (seen_->warnings.size() > kMostWarnings) seen_->warnings.pop_front();
  }
}

// The means of the newest steps; read again only when there are new steps.
void RunPage::read_step_times() {
  const std::uint64_t last = seen_->history.last_step();
  if (std::exchange(step_times_of_, last) == last && last > 0) return;
  step_times_ = nlohmann::json::object();
  view::CurveQuery query{.names = {},
                         .range = {.from = last > kRecentSteps ? last - kRecentSteps : 0, .to = last},
                         .points = kRecentSteps + 1};
  for (const char* part : kParts) query.names.push_back(str(part, "_ms"));
  const auto curves = seen_->history.curves(query);
  if (!curves) return;
  for (const char* part : kParts) {
    const auto curve = (*curves)["curves"].find(str(part, "_ms"));
    if (curve == (*curves)["curves"].end()) continue;
    const auto values = curve->find(curve->contains("value") ? "value" : "mean");
    if (values == curve->end() || values->empty()) continue;
    double sum = 0;
    for (const nlohmann::json& value : *values) sum += value.get<double>();
    step_times_[part] = sum / static_cast<double>(values->size());
  }
}

std::vector<std::string> RunPage::checkpoints() const {
  std::vector<std::string> names;
  for (const checkpoint::CheckpointId& id : checkpoint::list_committed(layout_.root()))
    names.push_back(id.directory_name());
  return names;
}

std::optional<double> RunPage::training_ratio() const {
  if (behind_) return std::nullopt;
  const auto all = seen_->history.curves({.names = {"step_ms"}, .range = {}, .points = 1});
  if (!all || !seen_->story.began() || !(*all)["curves"].contains("step_ms")) return std::nullopt;
  const nlohmann::json& curve = (*all)["curves"]["step_ms"];
  const nlohmann::json& means = curve[curve.contains("mean") ? "mean" : "value"];
  const std::string state = status_.value("state", "");
  const auto end =
      parse_utc(state == "running" || state == "starting" ? utc_now_ms() : status_.value("updated", ""));
  const double wall = end ? static_cast<double>(*end - *seen_->story.began()) : 0;
  if (means.empty() || wall <= 0) return std::nullopt;
  return std::min(1.0, means[0].get<double>() * static_cast<double>(seen_->history.last_step()) / wall);
}

nlohmann::json RunPage::summary() const {
  nlohmann::json summary = status_;
  summary["name"] = name_;
  summary["directory"] = printable(directory_.string());
  if (!summary.contains("state")) summary["state"] = "new";
  summary["now"] = utc_now_ms();
  seen_->story.put_into(summary, checkpoints());
  std::uint64_t recoveries = 0;
  for (const auto& [cause, count] : seen_->story.counts().recoveries) recoveries += count;
  summary["recoveries"] = recoveries;
  if (const auto limit = seen_->story.counts().time_limit) summary["time_limit"] = utc_text(*limit);
  nlohmann::json warnings = nlohmann::json::array();
  for (const view::LogLine& line : seen_->warnings)
    warnings.push_back({{"at", line.time}, {"level", line.level}, {"text", line.text}});
  summary["warnings"] = std::move(warnings);
  summary["metrics"] = seen_->history.names();
  return summary;
}

}  // namespace rekindle::board
