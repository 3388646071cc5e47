#include "slurm/batch_host.hpp"

#include "slurm/deadline.hpp"

namespace rekindle::slurm {

Result<BatchHostAnswer> ask_for_batch_host(const std::string& id, std::uint64_t restarts) {
  REKINDLE_TRY(JobFacts facts, show_job(id));
  const auto nodes = expand_nodes(facts.node_list);  // may fail: Slurm does not show the nodes of every job
  if (facts.restarts > restarts) return BatchHostAnswer{std::move(facts), false, false};
  bool lost = nodes && has_lost_batch_host(facts, {nodes->begin(), nodes->end()});
  // For an ending job, Slurm shows only the nodes on which the job has not yet ended.
  const bool killed = batch_step_killed(facts);
  if (killed && lost) lost = is_down(facts.batch_host).value_or(true);
  return BatchHostAnswer{std::move(facts), lost, killed && !lost};
}

}  // namespace rekindle::slurm
