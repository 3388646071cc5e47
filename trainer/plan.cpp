#include "trainer/plan.hpp"

namespace rekindle::trainer {

using namespace protocol;

namespace {

exchange::Endpoint to_endpoint(const Address& a) {
  exchange::Endpoint e;
  e.host = a.host;
  e.pid = a.pid;
  e.control_fd = a.control_fd;
  e.address = a.address;
  e.port = a.port;
  e.nonce = a.nonce;
  e.nccl = a.nccl;
  return e;
}

exchange::Backend backend_of(const std::string& name) {
  if (name == "shm") return exchange::Backend::kSharedMemory;
  if (name == "tcp") return exchange::Backend::kTcp;
  if (name == "nccl") return exchange::Backend::kNccl;
  return exchange::Backend::kAuto;
}

}  // namespace

Address to_address(const exchange::Endpoint& e) {
  return {e.host, e.address, e.nonce, e.nccl, e.pid, e.control_fd, e.port};
}

exchange::Plan plan_of(const Job& job, const Start& start) {
  exchange::Plan plan;
  plan.term = start.generation.term;
  plan.generation = start.generation.number;
  plan.rank = start.rank;
  plan.leaves = static_cast<int>(job.micro_batches);
  for (const Member& member : start.members) plan.members.push_back(to_endpoint(member.address));
  plan.secret = start.secret;
  plan.backend = backend_of(job.exchange);
  plan.integrity = job.exchange_integrity;
  if (start.without_nccl) {
    for (exchange::Endpoint& member : plan.members) member.nccl.clear();
    if (plan.backend == exchange::Backend::kNccl) plan.backend = exchange::Backend::kAuto;
  }
  return plan;
}

}  // namespace rekindle::trainer
