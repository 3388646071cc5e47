#include "app/views.hpp"

#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "app/looking.hpp"
#include "app/places.hpp"
#include "app/print_json.hpp"
#include "app/report.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/lists.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "run/records.hpp"
#include "view/curve.hpp"
#include "view/run_logs.hpp"
#include "view/runs.hpp"
#include "view/terminal.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;
using view::Colour;

constexpr std::array kLevels = {"debug", "info", "warning", "error"};

std::size_t rank_of(const std::string& level) {
  return static_cast<std::size_t>(std::ranges::find(kLevels, level) - kLevels.begin());
}

Colour colour_of(const std::string& level) {
  if (level == "error") return Colour::kRed;
  if (level == "warning") return Colour::kYellow;
  return level == "debug" ? Colour::kDim : Colour::kNone;
}

nlohmann::json json_of(const view::RunSummary& run) {
  nlohmann::json made = {{"run", run.directory.string()}, {"state", run.shown}};
  if (!run.problem.empty()) made["problem"] = run.problem;
  if (run.attempt == 0) return made;
  made.update({{"attempt", run.attempt}, {"step", run.step}, {"steps", run.steps}, {"updated", run.updated}});
  if (run.loss) made["loss"] = *run.loss;
  if (const auto evaluation = run::last_evaluation(run::Layout(run.directory, Trust::kForeign)))
    made["evaluation"] = *evaluation;
  return made;
}

std::vector<std::string> cells_of(const view::RunSummary& run, const fs::path& folder) {
  const fs::path name = run.directory.lexically_relative(folder);
  return {printable(name.empty() || name == "." ? run.directory.string() : name.string()),
          printable(run.problem.empty() ? run.shown : run.problem),
          run.steps > 0 ? str(run.step, "/", run.steps) : "",
          run.loss ? view::short_number(*run.loss) : "",
          run.attempt > 0 ? std::to_string(run.attempt) : "",
          printable(run.updated)};
}

// Columns as wide as their widest cell.
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], count_characters(row[i]));
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += padded(row[i], widths[i] + 2);
    while (line.ends_with(' ')) line.pop_back();
    std::cout << line << "\n";
  }
}

// A run that could not begin may have left its logs alone.
bool has_logs(const run::Layout& layout) {
  const auto names = names_in(layout.logs()).value_or(std::vector<std::string>());
  return std::ranges::any_of(names, [](const std::string& name) {
    return name.starts_with("supervisor") || name.starts_with("coordinator") || name.starts_with("slurm-");
  });
}

void warn_of_skipped(const std::vector<fs::path>& skipped) {
  if (skipped.empty()) return;
  const std::string first = skipped.front().string();
  const auto names = names_in(skipped.front()).value_or(std::vector<std::string>());
  const std::string more = skipped.size() > 1 ? str(", nor were ", skipped.size() - 1, " more folders") : "";
  warn(str("warning: ", first, " was not looked at, because it has ", names.size(), " names", more,
           ": rekindle list ", first, " looks there"));
}

}  // namespace

Status show_logs(const fs::path& run_dir, const LogsOptions& options) {
  const run::Layout layout(run_dir, Trust::kForeign);
  if (!has_logs(layout)) REKINDLE_CHECK(may_become_run(run_dir));
  view::RunLogs logs(layout);
  const bool colours = view::wants_colour(stdout);
  const bool filtered = options.level != "debug";  // then few of the last lines may be left
  auto last = options.lines;
  std::string level = "info";  // of a line without one: that of the line before
  for (Patience patience;;) {
    const auto begin = LookClock::now();
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
  const view::FoundRuns found = view::find_all_runs(folder);
  warn_of_skipped(found.skipped);
  for (const fs::path& each : found.runs) {
    const view::RunSummary run = view::summarize(each);
    rows.push_back(cells_of(run, folder));
    if (json) all.push_back(json_of(run));
  }
  if (found.runs.empty()) {
    const auto names = names_in(folder);
    if (!names) return forward_error(names.error());
  }
  if (json)
    print_json(all);
  else if (found.runs.empty())
    std::cout << "no runs below " << printable(folder.string()) << ": looked " << view::kFoldersDeep
              << " folders deep\n";
  else
    print_table(rows);
  return {};
}

Status plot_run(const fs::path& run_dir, const PlotOptions& options) {
  const run::Layout layout(run_dir, Trust::kForeign);
  REKINDLE_CHECK(must_be_run(layout));
  std::vector<std::string> names;
  REKINDLE_TRY(const std::vector<view::Point> points, view::read_curve(layout, options.metric, names));
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
  REKINDLE_CHECK(await_run(run_dir));
  const auto begin = LookClock::now();
  StaysLost lost, saved;  // or it is about to begin again
  for (Patience patience;;) {
    const auto looked = LookClock::now();
    const view::RunSummary run = view::summarize(run_dir);
    Status readable = run.problem.empty() ? Status() : fail(ExitCode::kConfig, run.problem);
    if (!patience.allows(readable)) return readable;
    if (options.step && run.step >= *options.step) return {};
    const view::Outcome outcome = view::outcome_of(run);
    if (outcome == view::Outcome::kFinished) {
      if (!options.step) return {};
      return fail(str("the run ended with step ", run.step, ", before step ", *options.step));
    }
    if (saved.holds(outcome == view::Outcome::kSaved) || outcome == view::Outcome::kGaveUp)
      return fail(ExitCode::kSaved, str("the run has saved its state at step ", run.step, ", and has ended"),
                  run.holder->slurm_job.empty() ? "run the same command again to go on" : kSubmitAgain);
    if (outcome == view::Outcome::kFailed)
      return fail(str("the run has failed at step ", run.step),
                  str("see rekindle status ", run_dir.string()));
    if (lost.holds(outcome == view::Outcome::kLost))
      return fail(str("the run ended without a report at step ", run.step, ": was it killed?"), kGoOn);
    if (options.timeout.count() > 0 && LookClock::now() - begin >= options.timeout)
      return fail(str("after ", format_duration(options.timeout), " the run is ", printable(run.shown),
                      " at step ", run.step, " of ", run.steps));
    rest(looked);
  }
}

}  // namespace rekindle::app
