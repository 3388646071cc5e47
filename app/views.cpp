#include "app/views.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "app/places.hpp"
#include "app/print_json.hpp"
#include "app/report.hpp"
#include "base/command.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/lists.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "view/curve.hpp"
#include "view/run_events.hpp"
#include "view/run_logs.hpp"
#include "view/runs.hpp"
#include "view/terminal.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;
using view::Colour;

constexpr std::array kLevels = {"debug", "info", "warning", "error"};
constexpr std::chrono::milliseconds kLook{500};

using Clock = std::chrono::steady_clock;

// Until the next look, which may be slow on shared storage.
void rest(Clock::time_point begin) {
  std::this_thread::sleep_for(std::max<Clock::duration>(kLook, Clock::now() - begin));
}

// A command that looks for days outlives a storage that is away for a minute.
class Patience {
 public:
  // False if the last result is an error, and so were all for two minutes. The first one is told.
  template <class T>
  bool allows(const Result<T>& result) {
    if (result) {
      since_.reset();
      return true;
    }
    if (!since_) {
      since_ = Clock::now();
      std::cerr << "rekindle: warning: " << printable(result.error().line()) << ": trying again\n";
    }
    return Clock::now() - *since_ < std::chrono::minutes(2);
  }

 private:
  std::optional<Clock::time_point> since_;
};

// A run that was submitted has no more than its batch script until its job begins.
Status may_become_run(const fs::path& run_dir) {
  const run::Layout layout(run_dir, Trust::kForeign);
  return is_file(layout.job_script()) ? Status() : must_be_run(layout);
}

std::size_t rank_of(const std::string& level) {
  return static_cast<std::size_t>(std::ranges::find(kLevels, level) - kLevels.begin());
}

Colour colour_of(const std::string& level) {
  if (level == "error") return Colour::kRed;
  if (level == "warning") return Colour::kYellow;
  return level == "debug" ? Colour::kDim : Colour::kNone;
}

nlohmann::json json_of(const view::RunSummary& run) {
  nlohmann::json made = {{"run", run.directory.string()}, {"state", run.state}};
  if (!run.problem.empty()) made["problem"] = run.problem;
  if (run.attempt == 0) return made;
  made.update({{"attempt", run.attempt}, {"step", run.step}, {"steps", run.steps}, {"updated", run.updated}});
  if (run.loss) made["loss"] = *run.loss;
  return made;
}

std::vector<std::string> cells_of(const view::RunSummary& run, const fs::path& folder) {
  const fs::path name = run.directory.lexically_relative(folder);
  return {printable(name.empty() || name == "." ? run.directory.string() : name.string()),
          printable(run.problem.empty() ? run.state : run.problem),
          run.steps > 0 ? str(run.step, "/", run.steps) : "",
          run.loss ? view::short_number(*run.loss) : "",
          run.attempt > 0 ? std::to_string(run.attempt) : "",
          printable(run.updated)};
}

// Runs a command of the user's with an event on its input. It may take its time, but not for ever: then it is
// ended with the processes that it started.
void tell(const std::string& command, const std::string& event) {
  constexpr const char* kLimit = "60";
  constexpr std::chrono::seconds kAfterIt{90};
  const auto complain = [](const std::string& what) {
    std::cerr << "rekindle: --on-event: " << what << "\n";
  };
  const Fd in(::memfd_create("event", MFD_CLOEXEC));
  const std::string line = event + "\n";
  if (!in || !write_all(in.get(), "the event", 0, std::as_bytes(std::span(line))))
    return complain("no memory");
  // timeout(1) puts the command into a process group of its own.
  const auto done = run_command({"timeout", "--signal=KILL", kLimit, "/bin/sh", "-c", command}, kAfterIt,
                                {.environment = {}, .in = in.get()});
  if (!done) return complain(done.error().line());
  std::cerr << done->out;  // not among the lines of --json
  if (done->ok()) return;
  std::string why = done->err.substr(0, done->err.find_last_not_of('\n') + 1);
  why = why.substr(why.rfind('\n') + 1);
  complain(str(done->status.by_signal ? "ended by signal " : "exit code ", done->status.code,
               why.empty() ? "" : ": ", printable(why)));
}

// Columns as wide as their widest cell.
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    while (line.ends_with(' ')) line.pop_back();
    std::cout << line << "\n";
  }
}

}  // namespace

Status show_logs(const fs::path& run_dir, const LogsOptions& options) {
  const run::Layout layout(run_dir, Trust::kForeign);
  REKINDLE_CHECK(must_be_run(layout));
  view::RunLogs logs(layout);
  const bool colours = view::wants_colour(stdout);
  const bool filtered = options.level != "debug";  // then few of the last lines may be left
  auto last = options.lines;
  std::string level = "info";  // of a line without one: that of the line before
  for (Patience patience;;) {
    const auto begin = Clock::now();
    auto lines = logs.read_new(last && !filtered ? *last : SIZE_MAX);
    if (!patience.allows(lines)) return forward_error(lines.error());
    if (lines) {
      std::erase_if(*lines, [&](const view::LogLine& line) {
        if (!line.level.empty()) level = line.level;
        return rank_of(level) < rank_of(options.level);
      });
      const std::size_t skipped = last && lines->size() > *last ? lines->size() - *last : 0;
      for (std::size_t i = skipped; i < lines->size(); ++i) {
        const view::LogLine& line = (*lines)[i];
        std::cout << (colours ? view::coloured(line.text, colour_of(line.level)) : line.text) << "\n";
      }
      std::cout << std::flush;
      last.reset();
    }
    if (!std::cout) return fail("the output is closed");
    if (lines && !options.follow) return {};
    rest(begin);
  }
}

Status list_runs(const fs::path& folder, bool json) {
  if (!is_folder(folder))
    return fail(ExitCode::kConfig, str(folder.string(), " is no folder"), "name one that has runs");
  std::vector<std::vector<std::string>> rows = {{"RUN", "STATE", "STEP", "LOSS", "ATTEMPT", "UPDATED"}};
  nlohmann::json all = nlohmann::json::array();
  for (const fs::path& each : view::find_runs(folder)) {
    const view::RunSummary run = view::summarize(each);
    rows.push_back(cells_of(run, folder));
    all.push_back(json_of(run));
  }
  if (json)
    print_json(all);
  else if (all.empty())
    std::cout << "no runs below " << printable(folder.string()) << "\n";
  else
    print_table(rows);
  return {};
}

Status plot_run(const fs::path& run_dir, const PlotOptions& options) {
  const run::Layout layout(run_dir, Trust::kForeign);
  REKINDLE_CHECK(must_be_run(layout));
  std::vector<std::string> names;
  const std::vector<view::Point> points = view::read_curve(layout, options.metric, names);
  if (points.empty()) {
    if (names.empty())
      return fail(ExitCode::kConfig, str(run_dir.string(), " has no step on record"),
                  "wait for the first one");
    return fail(ExitCode::kConfig, str("the run has no values of '", options.metric, "'"),
                str("it has ", joined(names, ", ")));
  }
  view::CurveStyle style;
  style.columns = view::columns_of(stdout, 80);
  style.logarithmic = options.logarithmic;
  style.unicode = view::shows_unicode();
  const std::vector<std::string> lines = view::draw(points, style);
  if (lines.empty())
    return fail(ExitCode::kConfig, str("no value of '", options.metric, "' is above 0"), "leave out --log");
  std::cout << printable(options.metric) << " of " << printable(run_dir.string()) << "\n";
  for (const std::string& line : lines) std::cout << line << "\n";
  return {};
}

Status wait_for_run(const fs::path& run_dir, const WaitOptions& options) {
  REKINDLE_CHECK(may_become_run(run_dir));
  const auto begin = Clock::now();
  for (Patience patience;;) {
    const auto looked = Clock::now();
    const view::RunSummary run = view::summarize(run_dir);
    Status readable = run.problem.empty() ? Status() : fail(ExitCode::kConfig, run.problem);
    if (!patience.allows(readable)) return readable;
    if (options.step && run.step >= *options.step) return {};
    const view::Outcome outcome = view::outcome_of(run);
    if (outcome == view::Outcome::kFinished) {
      if (!options.step) return {};
      return fail(str("the run ended with step ", run.step, ", before step ", *options.step));
    }
    if (outcome == view::Outcome::kFailed)
      return fail(str("the run has failed at step ", run.step),
                  str("see rekindle status ", run_dir.string()));
    if (options.timeout.count() > 0 && Clock::now() - begin >= options.timeout)
      return fail(str("after ", format_duration(options.timeout), " the run is ", printable(run.state),
                      " at step ", run.step, " of ", run.steps));
    rest(looked);
  }
}

Status watch_run(const fs::path& run_dir, const WatchOptions& options) {
  const run::Layout layout(run_dir, Trust::kForeign);
  REKINDLE_CHECK(may_become_run(run_dir));
  using From = view::RunEvents::From;
  view::RunEvents events(layout, options.from_start ? From::kBeginning : From::kNow);
  for (Patience patience;;) {
    const auto begin = Clock::now();
    // Before the events are read, so that the last one is among them.
    const view::Outcome outcome = view::outcome_of(view::summarize(run_dir));
    const auto fresh = events.read_new();
    if (!patience.allows(fresh)) return forward_error(fresh.error());
    for (const view::RunEvent& event : fresh.value_or(std::vector<view::RunEvent>())) {
      const std::string json =
          event.json(layout).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
      std::cout << (options.json ? json : str(printable(event.at), "  ", event.text)) << "\n" << std::flush;
      if (!options.on_event.empty()) tell(options.on_event, json);
    }
    if (!std::cout && options.on_event.empty()) return fail("the output is closed");
    if (fresh && outcome == view::Outcome::kFinished) return {};
    if (fresh && outcome == view::Outcome::kFailed)
      return fail("the run has failed", str("see rekindle status ", run_dir.string()));
    rest(begin);
  }
}

}  // namespace rekindle::app
