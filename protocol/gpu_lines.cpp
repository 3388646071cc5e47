#include "protocol/gpu_lines.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
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

// Two machines with different numbers of GPUs; "" if all have as many.
std::string unequal_hosts(const std::vector<const TrainerReady*>& members) {
  const auto [least, most] =
      std::ranges::minmax_element(members, {}, [](const auto* each) { return each->gpus; });
  if ((*least)->gpus == (*most)->gpus) return "";
  return str((*least)->host, " has ", counted((*least)->gpus, "GPU"), " and ", (*most)->host, " has ",
             (*most)->gpus, ": in a Slurm job, --gpus-per-node gives each node as many");
}

// Why NCCL cannot be used; "" if it can.
std::string why_no_nccl(const std::vector<const TrainerReady*>& members, const std::string& exchange,
                        int micro_batches) {
  if (exchange != "auto" && exchange != "nccl") return str("--exchange ", exchange);
  std::set<std::string> devices;
  for (const TrainerReady* each : members) {
    if (each->address.nccl.empty())
      return str("no NCCL on ", each->host, each->no_nccl.empty() ? "" : ": ", each->no_nccl);
    devices.insert(each->address.nccl);
  }
  if (devices.size() < members.size()) return "NCCL needs a GPU for each trainer";
  const int sums = partial_sums(micro_batches, static_cast<int>(members.size()));
  if (sums > kMostPartialSums)
    return str("so many trainers have ", sums, " partial sums, and ", kMostPartialSums,
               " are the most with NCCL");
  return "";
}

bool several_gpus(const std::vector<const TrainerReady*>& members) {
  return members.size() > 1 &&
         std::ranges::none_of(members, [](const TrainerReady* each) { return each->gpu_identity.empty(); });
}

}  // namespace

// The maximal aligned subtrees of each rank's range of micro-batches.
int partial_sums(int micro_batches, int ranks) {
  int sums = 0;
  const auto all = static_cast<std::int64_t>(micro_batches);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t end = (rank + 1) * all / ranks;
    for (std::int64_t first = rank * all / ranks; first < end; ++sums) {
      std::int64_t size = first == 0 ? all : first & -first;
      while (size > end - first) size /= 2;
      first += size;
    }
  }
  return sums;
}

std::string idle_gpus(const std::vector<const TrainerReady*>& trainers) {
  struct Host {
    int seen = 0;
    std::set<std::string> used;
  };
  std::map<std::string, Host> hosts;
  for (const TrainerReady* each : trainers) {
    if (each->gpu_identity.empty()) continue;
    Host& host = hosts[each->host];
    host.seen = std::max(host.seen, each->gpus);
    host.used.insert(each->gpu_identity);
  }
  std::string list;
  for (const auto& [name, host] : hosts) {
    const int used = static_cast<int>(host.used.size());
    if (used < host.seen)
      list += str(list.empty() ? "" : ", ", used, " of ", counted(host.seen, "GPU"), " on ", name);
  }
  if (list.empty()) return "";
  return str("this run uses ", list, ": --trainers-per-worker N (or --workers N) starts more trainers");
}

std::vector<std::string> gpu_lines(const std::vector<const TrainerReady*>& members,
                                   const std::string& exchange, int micro_batches) {
  if (!several_gpus(members)) return {};
  std::vector<std::string> lines = {shared_gpus(members)};
  if (!lines[0].empty()) lines.push_back(unequal_hosts(members));
  const std::string why = why_no_nccl(members, exchange, micro_batches);
  lines.push_back(
      why.empty() ? str("gradients go from GPU to GPU by NCCL ", nccl_version(members.front()->address.nccl))
                  : str("gradients go through host memory: ", why));
  std::erase(lines, "");
  return lines;
}

bool nccl_serves(const std::vector<const TrainerReady*>& members, const std::string& exchange,
                 int micro_batches) {
  return several_gpus(members) && why_no_nccl(members, exchange, micro_batches).empty();
}

}  // namespace rekindle::protocol
