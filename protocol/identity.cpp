#include "protocol/identity.hpp"

namespace rekindle::protocol {

std::string difference_until(std::uint64_t step, nlohmann::json theirs, const nlohmann::json& ours) {
  if (rates_until(theirs, step) != rates_until(ours, step)) return "lr";
  take_rates(theirs, ours);
  task::take_additions(theirs, ours);
  return first_difference(theirs, ours);
}

void use_changes_of(Job& job, const nlohmann::json& identity) {
  nlohmann::json changed = job;
  for (const char* key : kRateKeys) {
    if (identity.contains(key)) changed[key] = identity.at(key);
  }
  changed["rates_since"] = identity.value("rates_since", std::uint64_t{0});
  changed["earlier_rates"] = identity.value("earlier_rates", nlohmann::json::array());
  job = changed.get<Job>();
  task::use_additions(job.task, identity);
}

Job job_with_identity(const nlohmann::json& identity, const Job& now) {
  nlohmann::json all = Job{};
  all.update(identity);
  Job job = all.get<Job>();
  task::use_kind(job.task, identity);
  job.cpu_capability = now.cpu_capability;
  job.bf16_isa = now.bf16_isa;
  job.environment = now.environment;
  return job;
}

}  // namespace rekindle::protocol
