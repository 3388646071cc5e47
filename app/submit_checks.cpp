#include "app/submit_checks.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"
#include "slurm/environment.hpp"
#include "slurm/output.hpp"
#include "slurm/preflight.hpp"
#include "slurm/sbatch_options.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

std::string user_name() {
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr ? entry->pw_name : str(::getuid());
}

// The holder of this run: a pending or running job of this user, found by the run's records or by the job's
// script; or a run outside of Slurm. "" if there is none.
Result<std::string> holder_text(const fs::path& run_dir, std::string& id) {
  const run::Layout layout(run_dir);
  REKINDLE_TRY(const auto holder, run::newest_term(layout));
  const std::string follower = run::last_intent(layout).value("successor", "");
  REKINDLE_TRY(const auto jobs, slurm::own_jobs());
  for (const slurm::QueuedJob& job : jobs) {
    const bool holds = holder && job.id == holder->slurm_job;
    if (!holds && job.id != follower && job.script != run_dir / "job.sh") continue;
    id = job.id;
    return str("Slurm job ", job.id, " (", job.state, ")");
  }
  if (!holder || !holder->slurm_job.empty() || run::looks_gone(*holder)) return "";
  return str("a live run on host ", holder->host, " (pid ", holder->pid, ", since ", holder->since, ")");
}

Status check_holder(const fs::path& run_dir, const std::vector<std::string>& sbatch_options,
                    std::vector<std::string>& lines) {
  std::string id;
  REKINDLE_TRY(const std::string who, holder_text(run_dir, id));
  const bool waits =
      !id.empty() &&
      slurm::option_value(sbatch_options, "--dependency", 'd').value_or("").find(id) != std::string::npos;
  if (who.empty() || waits) return {};
  const std::string instead =
      id.empty() ? "" : str(", or let this job wait for it with -- --dependency=afterany:", id);
  lines.push_back(
      str(who,
          " has this run already: a job that starts while that one runs ends with exit code 78; end one of "
          "the two",
          instead));
  return {};
}

// The folder above the runs of an array has one job.sh, which another array may have had.
void check_other_array(const fs::path& home, const std::string& pattern, std::vector<std::string>& lines) {
  const run::Layout layout(home, Trust::kForeign);
  const auto text = read_text(layout.job_script());
  if (!text || slurm::has_run_dir(*text, pattern)) return;
  lines.push_back(
      str(layout.job_script().string(),
          " is of an array with another --run-dir, and this array's takes its place: to keep both, "
          "put each array's runs into a folder of its own"));
}

}  // namespace

bool is_array(const std::vector<std::string>& sbatch_options) {
  return std::any_of(sbatch_options.begin(), sbatch_options.end(), [](const std::string& word) {
    return word.starts_with("--array") || word.starts_with("-a");
  });
}

Result<std::map<std::string, std::string>> ask_slurm() {
  auto config = slurm::show_config();
  if (config) return config;
  return fail(str("Slurm does not answer: ", config.error().what),
              "`scontrol ping` shows whether slurmctld runs");
}

Result<std::vector<std::string>> warnings_before(std::map<std::string, std::string> config,
                                                 const LocalOptions& options, OnLimit on_limit,
                                                 const slurm::JobScript& script, const std::string& pattern) {
  slurm::Preflight known;
  known.config = std::move(config);
  known.script = to_text(script);
  known.lead_seconds = script.lead_seconds;
  slurm::JobFacts job;
  job.may_requeue = on_limit != OnLimit::kRequeue || !slurm::parse_script(*known.script).no_requeue;
  known.job = job;
  known.trainers_per_node = options.job.trainers_per_worker;
  known.threads = options.job.threads;
  std::vector<std::string> lines = slurm::preflight(known);
  if (!pattern.empty()) {
    check_other_array(options.run_dir, pattern, lines);
    if (is_array(script.options) && !slurm::differs_by_task(pattern))
      lines.push_back(str("all tasks of the array have the same --run-dir ", pattern, ": put %a into it"));
  } else {
    if (is_array(script.options))
      lines.push_back("the tasks of an array cannot share a run directory: put %a into --run-dir");
    REKINDLE_CHECK(check_holder(options.run_dir, script.options, lines));
  }
  if (!(options.job.task.script.empty() ? kCudaModels : kCudaScripts) && slurm::asks_for_gpus(script.options))
    lines.push_back(str("the job asks for GPUs, and this build has ",
                        kCudaScripts ? "CUDA for models in Python only" : "no CUDA",
                        ", so it trains on CPUs: build the preset 'cuda', or do not ask for GPUs"));
  if (known.trainers_per_node <= 1 && known.threads == 1 && !slurm::asks_for_gpus(script.options) &&
      slurm::asks_for_cpus_alone(script.options))
    lines.push_back(
        "each node trains on one CPU: ask for one task per trainer (--ntasks-per-node), or give "
        "--threads with an equal --cpus-per-task; see docs/slurm.md");
  return lines;
}

std::string warning_after(const std::string& id, const slurm::JobFacts& facts) {
  const std::string reason = slurm::never_starts(facts);
  if (reason.empty()) return "";
  const auto limits = slurm::limits_of_partition(facts.partition);
  const std::string partition =
      limits && !limits->empty() ? str("; partition ", facts.partition, " has ", *limits) : "";
  return str("job ", id, " will never start as it is (Slurm's reason: ", reason, partition, "): scancel ", id,
             ", and submit it with other options behind --");
}

std::string output_of(const std::string& id, const slurm::JobScript& script,
                      const Result<slurm::JobFacts>& facts) {
  const bool array = is_array(script.options);
  // Slurm's answer includes SBATCH_OUTPUT and similar settings, but for an array it names a task that does
  // not exist.
  if (facts && !facts->output.empty() && !array)
    return slurm::expand_output(facts->output, {id, script.name, user_name(), false});
  const std::string own = slurm::option_value(script.options, "--output", 'o').value_or("");
  const std::string directory = slurm::option_value(script.options, "--chdir", 'D').value_or("");
  const std::string name = slurm::option_value(script.options, "--job-name", 'J').value_or("");
  const fs::path output = own.empty() ? script.output : fs::current_path() / directory / own;
  return slurm::expand_output(output.lexically_normal(),
                              {id, name.empty() ? script.name : name, user_name(), array});
}

}  // namespace rekindle::app
