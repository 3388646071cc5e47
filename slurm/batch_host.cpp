#include "slurm/batch_host.hpp"

#include "slurm/deadline.hpp"

namespace rekindle::slurm {

Result<BatchHostAnswer> ask_for_batch_host(const std::string& id, std::uint64_t restarts) {
  REKINDLE_TRY(JobFacts facts, show_job(id));
  const auto nodes = expand_nodes(facts.node_list);  // an error: Slurm does not show the nodes of every job
  const bool lost =
      nodes && facts.restarts <= restarts && has_lost_batch_host(facts, {nodes->begin(), nodes->end()});
  return BatchHostAnswer{std::move(facts), lost};
}

}  // namespace rekindle::slurm
