#include <nlohmann/json.hpp>

#include "app/slurm_successor.hpp"
#include "base/json_reader.hpp"
#include "base/process.hpp"

namespace rekindle::app {

std::string successor_text(const SlurmJob& job) {
  const slurm::Environment& of = job.environment;
  const nlohmann::json json = {{"job", of.job},
                               {"array_job", of.array_job},
                               {"array_task", of.array_task},
                               {"name", of.name},
                               {"submit_directory", of.submit_directory},
                               {"batch_host", of.node},
                               {"node_list", of.node_list},
                               {"restarts", of.restarts},
                               {"nodes", job.nodes},
                               {"addresses", job.addresses},
                               {"kill_wait_s", job.kill_wait.count()},
                               {"on_limit", static_cast<int>(job.on_limit)},
                               {"requeue_within_ms", job.requeue_within.count()}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<SlurmJob> parse_successor_text(const std::string& text) {
  constexpr JsonField kFields[] = {{"job", JsonType::kText},
                                   {"array_job", JsonType::kText},
                                   {"array_task", JsonType::kText},
                                   {"name", JsonType::kText},
                                   {"submit_directory", JsonType::kText},
                                   {"batch_host", JsonType::kText},
                                   {"node_list", JsonType::kText},
                                   {"restarts", JsonType::kWhole},
                                   {"nodes", JsonType::kTexts},
                                   {"addresses", JsonType::kTexts},
                                   {"kill_wait_s", JsonType::kInt},
                                   {"on_limit", JsonType::kInt},
                                   {"requeue_within_ms", JsonType::kWhole}};
  REKINDLE_TRY(const nlohmann::json json, parse_object(text, kFields, "the description of a job"));
  SlurmJob job;
  slurm::Environment& of = job.environment;
  of.job = json.value("job", "");
  of.array_job = json.value("array_job", "");
  of.array_task = json.value("array_task", "");
  of.name = json.value("name", "");
  of.submit_directory = json.value("submit_directory", "");
  of.node = environment_variable("SLURMD_NODENAME");
  of.node_list = json.value("node_list", "");
  of.restarts = json.value("restarts", std::uint64_t{0});
  job.batch_host = json.value("batch_host", "");
  job.nodes = json.value("nodes", std::vector<std::string>());
  job.addresses = json.value("addresses", std::vector<std::string>());
  job.kill_wait = std::chrono::seconds(json.value("kill_wait_s", 30));
  job.on_limit = static_cast<OnLimit>(json.value("on_limit", 0));
  job.requeue_within = std::chrono::milliseconds(json.value("requeue_within_ms", 300000));
  return job;
}

}  // namespace rekindle::app
