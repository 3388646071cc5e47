#include "slurm/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/process.hpp"
#include "slurm/output.hpp"

namespace rekindle::slurm {
namespace {

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string of_process(std::int64_t pid, const char* file) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The nearest slurmstepd above this process.
struct StepDaemon {
  bool batch = false;      // the daemon runs the batch script, not a step
  std::int64_t child = 0;  // the process that the daemon started and signals: this process or an ancestor
};
std::optional<StepDaemon> step_daemon() {
  std::int64_t child = ::getpid();
  for (auto pid = static_cast<std::int64_t>(::getppid()); pid > 1;
       child = std::exchange(pid, static_cast<std::int64_t>(stat_field(pid, 4)))) {
    const std::string command = of_process(pid, "cmdline");
    if (command.starts_with("slurmstepd: ["))
      return StepDaemon{command.find(".batch]") != std::string::npos, child};
  }
  return std::nullopt;
}

// Empty if the process is this one.
std::string name_unless_own(std::int64_t pid) {
  if (pid == ::getpid()) return "";
  const std::string name = of_process(pid, "comm");
  return name.substr(0, name.find('\n'));
}

// The requested tasks per node. SLURM_TASKS_PER_NODE alone is not enough: without a request, Slurm sets it
// too, possibly to one task per CPU.
std::uint64_t tasks_asked(const Getenv& get) {
  if (const auto tasks = number(get("SLURM_NTASKS_PER_NODE"))) return *tasks;
  if (get("SLURM_NTASKS").empty()) return 0;
  const auto each = expand_counts(get("SLURM_TASKS_PER_NODE"));
  return each.empty() ? 0 : *std::min_element(each.begin(), each.end());
}

}  // namespace

std::uint64_t Environment::gpus_to_ask_for(std::size_t node) const {
  // A job with one GPU per task would give the step's single task only one GPU.
  if (gpus_per_task > 0 && node < tasks.size()) return gpus_per_task * tasks[node];
  // Of a job's --gpus, a step on one of several nodes would have to get all.
  return gpus_of_all > 0 && cpus.size() > 1 ? gpus : 0;
}

bool in_job(const Getenv& get) { return !get("SLURM_JOB_ID").empty(); }

Result<Environment> read_environment(const Getenv& get) {
  if (!in_job(get)) {
    return fail(ExitCode::kUsage, "this is not a Slurm job",
                "submit one with rekindle submit, or train on this machine with rekindle local");
  }
  const auto daemon = step_daemon();
  // A job that was submitted from a step inherits SLURM_STEP_ID, so the daemon above this process counts
  // more.
  if (daemon ? !daemon->batch : !get("SLURM_STEP_ID").empty()) {
    return fail(ExitCode::kUsage,
                "rekindle slurm runs inside a job step, which does not get the batch script's signal",
                "exec rekindle slurm in the batch script, without srun: it starts its own steps");
  }
  if (get("SLURMD_NODENAME").empty()) {
    return fail(ExitCode::kUsage,
                "rekindle slurm needs a batch job, and this is an interactive allocation (salloc)",
                "use rekindle submit, or sbatch");
  }
  Environment environment;
  environment.job = get("SLURM_JOB_ID");
  environment.array_job = get("SLURM_ARRAY_JOB_ID");
  environment.array_task = get("SLURM_ARRAY_TASK_ID");
  environment.name = get("SLURM_JOB_NAME");
  environment.submit_directory = get("SLURM_SUBMIT_DIR");
  environment.node = get("SLURMD_NODENAME");
  environment.node_list = get("SLURM_JOB_NODELIST");
  environment.restarts = number(get("SLURM_RESTART_COUNT")).value_or(0);
  environment.cpus = expand_counts(get("SLURM_JOB_CPUS_PER_NODE"));
  environment.tasks_per_node = tasks_asked(get);
  environment.gpus = number(get("SLURM_GPUS_ON_NODE")).value_or(0);
  const std::string per_task = get("SLURM_GPUS_PER_TASK");  // "2" or "a100:2"
  environment.gpus_per_task = number(per_task.substr(per_task.find(':') + 1)).value_or(0);
  if (environment.gpus_per_task == 0) environment.gpus_per_task = gpus_in(get("SLURM_TRES_PER_TASK"));
  const std::string of_all = get("SLURM_GPUS");
  environment.gpus_of_all = number(of_all.substr(of_all.find(':') + 1)).value_or(0);
  environment.follows = get(kFollows);
  environment.tasks = expand_counts(get("SLURM_TASKS_PER_NODE"));
  if (daemon) environment.batch_process = name_unless_own(daemon->child);
  return environment;
}

void correct(Environment& environment, const JobFacts& facts) {
  environment.array_job = facts.array_job;
  environment.array_task = facts.array_task;
  environment.gpus_of_all = facts.gpus;
  // With --exclusive, the batch script has all GPUs of its node, and a step those that the job asked for.
  const std::uint64_t of_one = environment.cpus.size() > 1 ? 0 : facts.gpus;
  for (const std::uint64_t asked : {facts.gpus_per_node, of_one, environment.gpus_to_ask_for(0)})
    if (asked > 0) environment.gpus = std::min(environment.gpus, asked);
  // If the controller reports more restarts, the job was requeued while this attempt started.
  environment.restarts = std::min(environment.restarts, facts.restarts);
  const bool asked = facts.tasks_per_node > 0
                         ? environment.tasks_per_node == facts.tasks_per_node
                         : environment.tasks_per_node * environment.tasks.size() <= facts.tasks;
  if (!asked) environment.tasks_per_node = facts.tasks_per_node;
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
  return expand_letters(text, [&environment](char letter, std::size_t width) -> std::optional<std::string> {
    if (width > kWidestNumber) return std::nullopt;  // such as %20 in an address, and not a number's width
    switch (letter) {
      case 'A':
        return environment.array_job.empty() ? environment.job : environment.array_job;
      case 'a':
        return environment.array_task;
      case 'j':
        return environment.job;
      case '%':
        return "%";
      default:
        return std::nullopt;
    }
  });
}

bool differs_by_task(const std::string& pattern) {
  Environment first, second;
  first.job = "2", second.job = "3";
  first.array_job = second.array_job = "2";
  first.array_task = "1", second.array_task = "2";
  return expand_pattern(pattern, first) != expand_pattern(pattern, second);
}

}  // namespace rekindle::slurm
