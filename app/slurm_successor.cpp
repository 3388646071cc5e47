#include "app/slurm_successor.hpp"

#include <algorithm>
#include <cstdlib>

#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/slurm_site.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"
#include "run/terms.hpp"
#include "slurm/batch_host.hpp"
#include "slurm/commands.hpp"

namespace rekindle::app {
namespace {

// Whether the batch script has ended without a report to Slurm, because the step daemon was killed, too.
// Slurm would leave the job RUNNING until its time limit.
bool has_lost_batch_step(const SlurmJob& job, const slurm::JobFacts& facts) {
  if (facts.state != "RUNNING" || facts.restarts > job.environment.restarts) return false;
  const auto runs = slurm::batch_step_runs(job.environment.job, job.batch_host);
  if (!runs)
    log_warning(
        str(job.batch_host, ": cannot determine whether the batch script runs: ", runs.error().line()));
  return runs && !*runs;
}

Result<int> succeed(const std::filesystem::path& run_dir, const std::string& inode, const std::string& text) {
  REKINDLE_TRY(const SlurmJob job, parse_successor_text(text));
  REKINDLE_TRY(const slurm::BatchHostAnswer answer,
               slurm::ask_for_batch_host(job.environment.id(), job.environment.restarts));
  LocalOptions options;
  options.run_dir = run_dir;
  options.run_dir_inode = std::strtoull(inode.c_str(), nullptr, 10);
  const run::Layout layout = options.layout();
  start_logging("rekindle", layout.log("supervisor-" + job.environment.node), LogLevel::kNone,
                LogWrites::kInBackground);
  if (!answer.lost && !answer.script_killed && !has_lost_batch_step(job, answer.facts)) return kNotNeeded;
  REKINDLE_TRY(const auto lost, run::newest_term(layout));
  if (!lost || (lost->ended && !lost->orphaned)) return kNotNeeded;  // another node's process was faster
  REKINDLE_TRY(options.job, read_job(layout.config()));
  const auto here = std::find(job.nodes.begin(), job.nodes.end(), job.environment.node);
  const auto index = static_cast<std::size_t>(here - job.nodes.begin());
  if (index < job.addresses.size()) options.job.interface = job.addresses[index];
  log_warning(str("the job has lost its batch ", answer.lost ? "host " : "script on ", job.batch_host,
                  ": this node saves the state"));
  REKINDLE_TRY(const TakenOver taken, succeed_slurm(job, options, answer, *lost));
  return taken.exit_code.value_or(kNotNeeded);
}

}  // namespace

int run_successor(const std::filesystem::path& run_dir, const std::string& inode, const std::string& text) {
  const auto exit_code = succeed(run_dir, inode, text);
  return exit_code ? *exit_code : report(exit_code.error());
}

}  // namespace rekindle::app
