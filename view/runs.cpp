#include "view/runs.hpp"

#include <utility>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "run/records.hpp"
#include "run/status_file.hpp"

namespace rekindle::view {
namespace {

constexpr std::size_t kMostNames = 5000;

// Whether the processes of a run are gone, its supervisor included, and no helper takes it over any more.
bool is_abandoned(const RunSummary& summary, const run::Holder& last) {
  if (!run::provably_gone(last) || !last.slurm_job.empty()) return false;
  if (last.supervisor_pid != 0 && !run::supervisor_gone(last)) return false;
  const auto claimed = age_of(last.since), updated = age_of(summary.updated);
  return claimed && *claimed >= kNoHelperAfter && (!updated || *updated >= kNoHelperAfter);
}

}  // namespace

std::string state_of(const nlohmann::json& status, const std::optional<run::Holder>& holder) {
  std::string state = status.value("state", status.empty() ? "new" : "unknown");
  const bool newer = holder && holder->term > status.value("term", std::uint64_t{0});
  if (newer && !run::provably_gone(*holder)) return kStarting;
  if (state != "running") return state;
  return holder && run::provably_gone(*holder) ? kWithoutReport : state;
}

RunSummary summarize(const std::filesystem::path& directory) {
  RunSummary summary;
  summary.directory = directory;
  const run::Layout layout(directory, Trust::kForeign);
  const auto status = run::read_status(layout);
  const auto holder = run::newest_term(layout);
  if (!status || !holder) {
    summary.state = "unknown";
    summary.problem = (status ? holder.error() : status.error()).line();
    return summary;
  }
  constexpr std::uint64_t kNone = 0;
  summary.state = state_of(*status, *holder);
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
  if (!summary.holder) return Outcome::kGoesOn;
  // status.json says so before everything else of the attempt is written. Then the term ends.
  const run::Holder& last = *summary.holder;
  const bool abandoned = is_abandoned(summary, last);
  const bool ended = !last.orphaned && (last.ended || run::provably_gone(last));
  if (!ended && !abandoned) return Outcome::kGoesOn;
  if (summary.state == "finished") return Outcome::kFinished;
  if (abandoned && (summary.state == kWithoutReport || summary.state == "new")) return Outcome::kLost;
  if (summary.state != "failed" && summary.state != "saved") return Outcome::kGoesOn;
  if (last.slurm_job.empty()) return summary.state == "failed" ? Outcome::kFailed : Outcome::kGoesOn;
  Outcome outcome = Outcome::kGoesOn;  // the batch script has not said yet
  run::each_line(run::Layout(summary.directory, Trust::kForeign).attempts(), [&](const nlohmann::json& line) {
    if (line.value("event", "") == "slurm-begin") outcome = Outcome::kGoesOn;
    if (line.value("event", "") != "slurm-end") return;
    const bool left = line.contains("requeued") ? !line.value("requeued", false) : summary.state == "failed";
    outcome = left ? Outcome::kFailed : Outcome::kGoesOn;
  });
  return outcome;
}

std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder, int depth) {
  const run::Layout layout(folder, Trust::kForeign);
  if (is_file(layout.config())) return {folder};
  std::vector<std::filesystem::path> found;
  if (depth == 0) return found;
  const auto names = names_in(layout.root()).value_or(std::vector<std::string>());
  if (names.size() > kMostNames) return found;  // data
  for (const std::string& name : names) {
    if (name.starts_with('.') || !is_folder(layout.root() / name)) continue;
    for (auto& each : find_runs(folder / name, depth - 1)) found.push_back(std::move(each));
  }
  return found;
}

}  // namespace rekindle::view
