#include "slurm/environment.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace rekindle::slurm {
namespace {

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What was asked for a node. SLURM_TASKS_PER_NODE is always set, and may be one task a CPU where nobody
// asked.
std::uint64_t tasks_asked(const Getenv& get) {
  if (const auto tasks = number(get("SLURM_NTASKS_PER_NODE"))) return *tasks;
  if (get("SLURM_NTASKS").empty()) return 0;
  const auto each = expand_counts(get("SLURM_TASKS_PER_NODE"));
  return each.empty() ? 0 : *std::min_element(each.begin(), each.end());
}

}  // namespace

std::string from_process(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool in_job(const Getenv& get) { return !get("SLURM_JOB_ID").empty(); }

Result<Environment> read_environment(const Getenv& get) {
  if (!in_job(get)) {
    return fail(ExitCode::kUsage, "this is not a Slurm job",
                "submit one with rekindle submit, or train on this machine with rekindle local");
  }
  if (!get("SLURM_STEP_ID").empty()) {
    return fail(ExitCode::kUsage,
                "rekindle slurm runs inside a job step, which the batch script's signal does not reach",
                "let the batch script exec it, without srun: it starts its own steps");
  }
  Environment environment;
  environment.job = get("SLURM_JOB_ID");
  environment.array_job = get("SLURM_ARRAY_JOB_ID");
  environment.array_task = get("SLURM_ARRAY_TASK_ID");
  environment.node = get("SLURMD_NODENAME");
  environment.node_list = get("SLURM_JOB_NODELIST");
  environment.restarts = number(get("SLURM_RESTART_COUNT")).value_or(0);
  environment.cpus = expand_counts(get("SLURM_JOB_CPUS_PER_NODE"));
  environment.tasks_per_node = tasks_asked(get);
  environment.gpus = number(get("SLURM_GPUS_ON_NODE")).value_or(0);
  return environment;
}

std::vector<std::uint64_t> expand_counts(const std::string& text) {
  std::vector<std::uint64_t> counts;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = std::string_view(text).substr(at, comma - at);
    const std::size_t bracket = part.find("(x");
    const auto value = number(part.substr(0, bracket));
    auto times = std::optional<std::uint64_t>(1);
    if (bracket != std::string_view::npos) {
      if (!part.ends_with(')')) return {};
      times = number(part.substr(bracket + 2, part.size() - bracket - 3));
    }
    constexpr std::uint64_t kMostNodes = 1 << 20;
    if (!value || !times || *times > kMostNodes) return {};
    counts.insert(counts.end(), *times, *value);
    at = comma + 1;
  }
  return counts;
}

std::string expand_pattern(const std::string& text, const Environment& environment) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '%' && i + 1 < text.size() ? text[i + 1] : '\0';
    switch (next) {
      case 'A':
        out += environment.array_job.empty() ? environment.job : environment.array_job;
        break;
      case 'a':
        out += environment.array_task;
        break;
      case 'j':
        out += environment.job;
        break;
      case '%':
        out += '%';
        break;
      default:
        out += text[i];
        continue;
    }
    ++i;
  }
  return out;
}

}  // namespace rekindle::slurm
