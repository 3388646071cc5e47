#include "view/runs.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <string_view>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "run/records.hpp"
#include "run/status_file.hpp"

namespace rekindle::view {
namespace {

constexpr std::size_t kMostNames = 5000, kMostSamples = 100;

// As in a folder of a class: a data set has thousands of these.
bool names_a_sample(const std::filesystem::path& name) {
  constexpr std::string_view kEnds[] = {".jpg", ".jpeg", ".png", ".webp", ".npy", ".tar", ".parquet"};
  std::string end = name.extension().string();
  std::ranges::transform(end, end.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(kEnds, end) != std::end(kEnds);
}

// Below a home there are tens of thousands of folders in these.
bool is_library(const std::filesystem::path& folder) {
  constexpr std::string_view kNames[] = {"site-packages", "dist-packages", "node_modules", "pkgs"};
  return std::ranges::find(kNames, folder.filename().string()) != std::end(kNames);
}

}  // namespace

bool is_submitted(const run::Layout& layout) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  if (!is_file(layout.job_script())) return false;
  const auto text = read_text(layout.job_script(), kMostBytes);
  return text && text->starts_with("#!/bin/bash\n# Written by rekindle submit.");
}

namespace {

// How the newest attempt of a job has ended. kRefused: it was to be queued again, and is not.
enum class JobEnd { kNotYet, kQueued, kRefused, kLeft };

struct JobTrail {
  JobEnd end = JobEnd::kNotYet;  // the batch script has not said yet
  // Whether a job was submitted after the run had ended, and no attempt has begun since.
  bool submitted_again = false;
};

JobTrail trail_of(const run::Layout& layout) {
  JobTrail trail;
  // A job that begins at once may say so before `rekindle submit` has written down that it is submitted.
  std::set<std::string> begun;
  run::each_line(layout.attempts(), [&](const nlohmann::json& line) {
    const std::string event = line.value("event", ""), job = line.value("job", "");
    if (event == run::kSubmitted) trail.submitted_again |= !begun.contains(job);
    if (event == "begin" || event == "slurm-begin" || event == "slurm-end") trail.submitted_again = false;
    // `rekindle local` in a shell of a job has no more to say; an attempt of the job itself goes on.
    if (event == "begin") trail.end = JobEnd::kLeft;
    // A successor takes the place of a batch script that was killed.
    if (event == "slurm-begin" || event == "slurm-successor") {
      trail.end = JobEnd::kNotYet;
      begun.insert(job.substr(0, job.find('_')));  // without a task of an array
    }
    if (event != "slurm-end") return;
    const bool queued = line.value("requeued", line.value("cause", "").starts_with("requeued by "));
    const JobEnd otherwise = line.contains("requeued") ? JobEnd::kRefused : JobEnd::kLeft;
    trail.end = queued ? JobEnd::kQueued : otherwise;
  });
  return trail;
}

// Whether the processes of a run are gone, its supervisor included, and no helper takes it over any more.
bool is_abandoned(const RunSummary& summary, const run::Holder& last) {
  if (!run::looks_gone(last)) return false;
  // Slurm queues a job again if its batch script has not said how it ended. A run of `rekindle local` in a
  // shell of a job has no batch script.
  if (!last.slurm_job.empty() &&
      trail_of(run::Layout(summary.directory, Trust::kForeign)).end != JobEnd::kLeft)
    return false;
  // If the term has ended, the supervisor starts no other coordinator; of a copy, it holds the original.
  if (!last.ended && last.supervisor_pid != 0 && !run::supervisor_gone(last)) return false;
  const auto claimed = age_of(last.since), updated = age_of(summary.updated);
  return claimed && *claimed >= kNoHelperAfter && (!updated || *updated >= kNoHelperAfter);
}

}  // namespace

std::string state_of(const nlohmann::json& status, const std::optional<run::Holder>& holder) {
  std::string state = status.value("state", status.empty() ? "new" : "unknown");
  const bool newer = holder && holder->term > status.value("term", std::uint64_t{0});
  if (newer && !run::looks_gone(*holder)) return kStarting;
  if (state != "running") return state;
  return holder && run::looks_gone(*holder) ? kWithoutReport : state;
}

std::string shown_state(const run::Layout& layout, const std::string& state,
                        const std::optional<run::Holder>& holder) {
  if (state == "new" && !holder && is_submitted(layout)) return kPending;
  const bool ended = state == "saved" || state == "failed";
  if (!ended || !holder) return state;
  const JobTrail trail = trail_of(layout);
  const bool queued = !holder->slurm_job.empty() && trail.end == JobEnd::kQueued;
  return queued || trail.submitted_again ? kPending : state;
}

RunSummary summarize(const std::filesystem::path& directory) {
  RunSummary summary;
  summary.directory = directory;
  const run::Layout layout(directory, Trust::kForeign);
  const auto status = run::read_status(layout);
  const auto holder = run::newest_term(layout);
  if (!status || !holder) {
    summary.state = summary.shown = "unknown";
    summary.problem = (status ? holder.error() : status.error()).line();
    return summary;
  }
  constexpr std::uint64_t kNone = 0;
  summary.state = state_of(*status, *holder);
  summary.shown = shown_state(layout, summary.state, *holder);
  summary.holder = *holder;
  summary.attempt = status->value("attempt", kNone);
  summary.step = status->value("step", kNone);
  summary.steps = status->value("steps", kNone);
  if (const auto loss = status->find("loss"); loss != status->end() && loss->is_number() && summary.step > 0)
    summary.loss = loss->get<double>();
  summary.updated = status->value("updated", "");
  return summary;
}

Outcome outcome_of(const RunSummary& summary) {
  if (!summary.holder || summary.shown == kPending) return Outcome::kGoesOn;
  // status.json says so before everything else of the attempt is written. Then the term ends.
  const run::Holder& last = *summary.holder;
  const bool abandoned = is_abandoned(summary, last);
  const bool ended = !last.orphaned && (last.ended || run::looks_gone(last));
  if (!ended && !abandoned) return Outcome::kGoesOn;
  if (summary.state == "finished") return Outcome::kFinished;
  if (abandoned && (summary.state == kWithoutReport || summary.state == "new")) return Outcome::kLost;
  if (summary.state != "failed" && summary.state != "saved") return Outcome::kGoesOn;
  const Outcome ended_so = summary.state == "failed" ? Outcome::kFailed : Outcome::kSaved;
  if (last.slurm_job.empty()) return ended_so;
  switch (trail_of(run::Layout(summary.directory, Trust::kForeign)).end) {
    case JobEnd::kLeft:
      return ended_so;
    case JobEnd::kRefused:
      return ended_so == Outcome::kSaved ? Outcome::kGaveUp : ended_so;
    default:
      return Outcome::kGoesOn;
  }
}

namespace {

bool looks_like_data(const FilePath& folder, const std::vector<std::string>& names) {
  if (names.size() > kMostNames) return true;
  std::size_t samples = 0;
  return std::ranges::any_of(names, [&](const std::string& name) {
    return names_a_sample(name) && !is_folder(folder / name) && ++samples == kMostSamples;
  });
}

// `whole`: also if it looks like data.
void look_below(const std::filesystem::path& folder, int depth, bool whole, FoundRuns& found) {
  const run::Layout layout(folder, Trust::kForeign);
  if (is_file(layout.config())) {
    found.runs.push_back(folder);
    return;
  }
  const std::size_t before = found.runs.size();
  if (depth > 0) {
    if (!whole && is_library(folder)) return;
    const auto names = names_in(layout.root()).value_or(std::vector<std::string>());
    if (!whole && looks_like_data(layout.root(), names)) {
      // In a folder of samples alone no run is missed.
      if (!std::ranges::all_of(names, names_a_sample)) found.skipped.push_back(folder);
      if (is_submitted(layout)) found.runs.push_back(folder);
      return;
    }
    for (const std::string& name : names) {
      if (!name.starts_with('.') && is_folder(layout.root() / name))
        look_below(folder / name, depth - 1, false, found);
    }
  }
  // The folder of a job array has its script, too; the runs are in folders inside.
  if (found.runs.size() == before && is_submitted(layout)) found.runs.push_back(folder);
}

}  // namespace

FoundRuns find_all_runs(const std::filesystem::path& folder) {
  FoundRuns found;
  look_below(folder, kFoldersDeep, true, found);
  return found;
}

std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder, int depth) {
  FoundRuns found;
  look_below(folder, depth, false, found);
  return found.runs;
}

}  // namespace rekindle::view
