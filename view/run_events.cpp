#include "view/run_events.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "base/json_reader.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "view/curve.hpp"

namespace rekindle::view {
namespace {

constexpr std::uint64_t kNone = 0;
constexpr const char* kRequeuedBySlurm = "requeued by Slurm or an operator";  // slurm::to_text()
constexpr int kSaved = static_cast<int>(ExitCode::kSaved),
              kInterrupted = static_cast<int>(ExitCode::kInterrupted);

// The fields that are read.
constexpr JsonField kFields[] = {
    {"event", JsonType::kText},      {"at", JsonType::kText},       {"host", JsonType::kText},
    {"why", JsonType::kText},        {"cause", JsonType::kText},    {"successor", JsonType::kText},
    {"generation", JsonType::kText}, {"attempt", JsonType::kWhole}, {"step", JsonType::kWhole},
    {"trainers", JsonType::kWhole},  {"exit_code", JsonType::kInt}, {"requeued", JsonType::kBool},
    {"epoch", JsonType::kWhole},     {"term", JsonType::kWhole},    {"test_loss", JsonType::kNumberOrNull}};

std::optional<nlohmann::json> parse(const std::string& line) {
  auto json = parse_object(line, kFields, "");
  if (!json) return std::nullopt;
  return std::move(*json);
}

RunEvent event_of(const nlohmann::json& line, const char* kind) {
  return {.kind = kind,
          .at = line.value("at", ""),
          .attempt = line.value("attempt", kNone),
          .step = line.value("step", kNone)};
}

// (1, 2) of "t1.g2".
std::pair<std::uint64_t, std::uint64_t> numbers_in(const std::string& generation) {
  unsigned long long term = 0, number = 0;
  if (std::sscanf(generation.c_str(), "t%llu.g%llu", &term, &number) != 2) return {};  // NOLINT(cert-err34-c)
  return {term, number};
}

std::string number(const nlohmann::json& value) {
  return value.is_number() ? short_number(value.get<double>()) : "nan";
}

}  // namespace

nlohmann::json RunEvent::json(const run::Layout& layout) const {
  nlohmann::json made = more;
  made.update({{"event", kind},
               {"at", at},
               {"run", layout.root().string()},
               {"attempt", attempt},
               {"step", step},
               {"text", text}});
  return made;
}

RunEvents::RunEvents(run::Layout layout, From from)
    : layout_(std::move(layout)),
      attempts_(layout_.attempts()),
      metrics_(layout_.metrics()),
      silent_(from == From::kNow) {
  for (const checkpoint::CheckpointId& id : checkpoint::list_committed(layout_.root())) saved_.insert(id);
  // Of a run of weeks only the last line counts. If this fails, all of it is read.
  if (silent_) static_cast<void>(metrics_.skip_to_last(std::uint64_t{1} << 16));
}

void RunEvents::on_attempt(const nlohmann::json& line, std::vector<RunEvent>& events) {
  const std::string event = line.value("event", "");
  const auto add = [&](const char* kind, std::string text, nlohmann::json more) {
    RunEvent made = event_of(line, kind);
    made.text = std::move(text);
    made.more = std::move(more);
    events.push_back(std::move(made));
  };
  const std::uint64_t attempt = line.value("attempt", kNone), step = line.value("step", kNone),
                      term = line.value("term", kNone);
  if (event == "begin" || event == "coordinator-restart") seen_.term = std::max(seen_.term, term);
  if (event == "begin") {
    const std::string host = printable(line.value("host", ""));
    add("started", str("attempt ", attempt, " began on ", host), {{"host", host}});
  } else if (event == "coordinator-restart") {
    add("recovered", "another coordinator goes on in place of one that died", {{"cause", "coordinator"}});
  } else if (event == "end" && term >= seen_.term) {  // not of a coordinator that was replaced, and woke up
    const std::string why = printable(line.value("why", ""));
    const int code = line.value("exit_code", -1);
    if (code == 0)
      add("finished", why, {{"why", why}});
    else if (code == kSaved || code == kInterrupted)
      add("stopped", why, {{"why", why}});
    else
      add("gave_up", "gave up: " + why, {{"why", why}});
  } else if (event == "slurm-end") {
    const std::string cause = printable(line.value("cause", ""));
    const std::string job = str("the job ends at step ", step, " (", cause, ") and is ");
    if (line.value("requeued", cause == kRequeuedBySlurm))
      add("requeued", job + "queued again", {{"cause", cause}});
    else if (line.contains("requeued"))
      add("gave_up", job + "not queued again", {{"why", cause}});
  }
}

void RunEvents::on_metrics(const nlohmann::json& line, std::vector<RunEvent>& events) {
  seen_.newest = std::max(seen_.newest, line.value("at", ""));
  if (line.contains("test_loss")) {
    RunEvent made = event_of(line, "evaluated");
    made.text = str("test loss ", number(line["test_loss"]));
    for (const auto& [key, value] : line.items()) {
      if (!key.starts_with("test_") || !value.is_primitive()) continue;
      made.more[key] = value;
      if (key != "test_loss" && key != "test_count" && value.is_number())
        made.text += str(", ", printable(key.substr(5)), " ", number(value));
    }
    made.text += str(" after step ", made.step);
    events.push_back(std::move(made));
    return;
  }
  const std::string generation = line.value("generation", "");
  if (generation.empty()) return;
  const std::uint64_t attempt = line.value("attempt", kNone), trainers = line.value("trainers", kNone);
  const bool newer =
      numbers_in(generation) > numbers_in(seen_.generation);  // the line of a step may come late
  if (attempt == seen_.attempt && newer && !seen_.generation.empty()) {
    RunEvent made = event_of(line, "recovered");
    made.text = str("goes on with ", counted(trainers, "trainer"), " (", seen_.trainers,
                    " before) from step ", made.step > 0 ? made.step - 1 : 0);
    made.more = {{"cause", "trainers"}, {"trainers", trainers}, {"before", seen_.trainers}};
    events.push_back(std::move(made));
  }
  if (attempt == seen_.attempt && !newer) return;
  seen_.generation = generation;
  seen_.attempt = attempt;
  seen_.trainers = trainers;
}

void RunEvents::on_checkpoints(std::vector<RunEvent>& events) {
  std::vector<checkpoint::CheckpointId> now = checkpoint::list_committed(layout_.root());
  std::ranges::sort(now);
  for (const checkpoint::CheckpointId& id : now) {
    if (!saved_.insert(id).second) continue;
    RunEvent made{.kind = "saved", .at = utc_now(), .attempt = seen_.attempt, .step = id.step};
    made.text = str("saved ", id.directory_name());
    made.more = {{"checkpoint", id.directory_name()}};
    events.push_back(std::move(made));
  }
}

Status RunEvents::read_metrics(std::vector<RunEvent>& events) {
  const Seen before = seen_;
  Status read = metrics_.read([&](const std::string& text, bool anew) {
    const auto line = parse(text);
    // After a restart at an earlier step the file has been written anew, without the lines of later steps.
    if (line && (!anew || line->value("at", "") > before.newest)) on_metrics(*line, events);
  });
  if (!read) seen_ = before;
  return read;
}

Status RunEvents::read_attempts(std::vector<RunEvent>& events) {
  const Seen before = seen_;
  Status read = attempts_.read([&](const std::string& text, bool) {
    if (const auto line = parse(text)) on_attempt(*line, events);
  });
  if (!read) seen_ = before;
  return read;
}

Result<std::vector<RunEvent>> RunEvents::read_new() {
  std::vector<RunEvent> metrics, attempts;
  REKINDLE_CHECK(read_metrics(metrics));
  std::ranges::move(metrics, std::back_inserter(waiting_));
  REKINDLE_CHECK(read_attempts(attempts));
  std::ranges::move(attempts, std::back_inserter(waiting_));
  std::vector<RunEvent> events = std::exchange(waiting_, {}), saved;
  std::ranges::stable_sort(events, {}, &RunEvent::at);
  on_checkpoints(saved);
  // When they were made is not known, but the end of an attempt comes last.
  const auto end = std::ranges::find_if(events, [](const RunEvent& event) {
    return event.kind == "finished" || event.kind == "stopped" || event.kind == "gave_up";
  });
  events.insert(end, saved.begin(), saved.end());
  if (std::exchange(silent_, false)) events.clear();
  return events;
}

}  // namespace rekindle::view
