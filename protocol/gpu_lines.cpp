#include "protocol/gpu_lines.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/text.hpp"

namespace rekindle::protocol {
namespace {

// "2.28.9" of an Address::nccl, which begins with 22809.
std::string nccl_version(const std::string& nccl) {
  int version = 0;
  std::from_chars(nccl.data(), nccl.data() + nccl.size(), version);
  return str(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// "2 trainers share one GPU"; "" if each has one of its own.
std::string shared_gpus(const std::vector<const TrainerReady*>& members) {
  std::map<std::string, int> users;
  for (const TrainerReady* each : members) ++users[each->gpu_identity];
  std::erase_if(users, [](const auto& gpu) { return gpu.second == 1; });
  if (users.empty()) return "";
  int trainers = 0;
  for (const auto& [gpu, count] : users) trainers += count;
  return str(trainers, " trainers share ", users.size() == 1 ? "one GPU" : counted(users.size(), "GPU"));
}

// Why NCCL cannot be used; "" if it can.
std::string why_no_nccl(const std::vector<const TrainerReady*>& members, const std::string& exchange) {
  if (exchange != "auto" && exchange != "nccl") return str("--exchange ", exchange);
  std::set<std::string> devices;
  for (const TrainerReady* each : members) {
    if (each->address.nccl.empty()) return str("there is no NCCL on ", each->host);
    devices.insert(each->address.nccl);
  }
  return devices.size() < members.size() ? "NCCL needs a GPU for each trainer" : "";
}

bool several_gpus(const std::vector<const TrainerReady*>& members) {
  return members.size() > 1 &&
         std::ranges::none_of(members, [](const TrainerReady* each) { return each->gpu_identity.empty(); });
}

}  // namespace

std::vector<std::string> gpu_lines(const std::vector<const TrainerReady*>& members,
                                   const std::string& exchange) {
  if (!several_gpus(members)) return {};
  std::vector<std::string> lines = {shared_gpus(members)};
  const std::string why = why_no_nccl(members, exchange);
  lines.push_back(
      why.empty() ? str("gradients go from GPU to GPU by NCCL ", nccl_version(members.front()->address.nccl))
                  : str("gradients go through host memory: ", why));
  std::erase(lines, "");
  return lines;
}

bool nccl_serves(const std::vector<const TrainerReady*>& members, const std::string& exchange) {
  return several_gpus(members) && why_no_nccl(members, exchange).empty();
}

}  // namespace rekindle::protocol
