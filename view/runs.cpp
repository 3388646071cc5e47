#include "view/runs.hpp"

#include <utility>

#include "base/files.hpp"
#include "run/status_file.hpp"
#include "run/terms.hpp"

namespace rekindle::view {

Result<std::string> state_of(const run::Layout& layout, const nlohmann::json& status) {
  std::string state = status.value("state", status.empty() ? "new" : "unknown");
  REKINDLE_TRY(const auto holder, run::newest_term(layout));
  const bool newer = holder && holder->term > status.value("term", std::uint64_t{0});
  if (newer && !run::provably_gone(*holder)) return kStarting;
  if (state != "running") return state;
  return holder && run::provably_gone(*holder) ? "ended without a report (killed?)" : state;
}

RunSummary summarize(const std::filesystem::path& directory) {
  RunSummary summary{.directory = directory};
  const run::Layout layout(directory, Trust::kForeign);
  const auto status = run::read_status(layout);
  const auto state = status ? state_of(layout, *status) : forward_error(status.error());
  if (!state) {
    summary.state = "unknown";
    summary.problem = state.error().line();
    return summary;
  }
  constexpr std::uint64_t kNone = 0;
  summary.state = *state;
  summary.attempt = status->value("attempt", kNone);
  summary.step = status->value("step", kNone);
  summary.steps = status->value("steps", kNone);
  if (const auto loss = status->find("loss"); loss != status->end() && loss->is_number() && summary.step > 0)
    summary.loss = loss->get<double>();
  summary.updated = status->value("updated", "");
  return summary;
}

std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder, int depth) {
  const run::Layout layout(folder, Trust::kForeign);
  if (is_file(layout.config())) return {folder};
  std::vector<std::filesystem::path> found;
  if (depth == 0) return found;
  for (const std::string& name : names_in(layout.root()).value_or(std::vector<std::string>())) {
    if (name.starts_with('.') || !is_folder(layout.root() / name)) continue;
    for (auto& each : find_runs(folder / name, depth - 1)) found.push_back(std::move(each));
  }
  return found;
}

}  // namespace rekindle::view
