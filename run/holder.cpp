#include "run/holder.hpp"

#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/json_reader.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::run {
namespace {

constexpr JsonField kClaimFields[] = {{"host", JsonType::kText},
                                      {"boot_id", JsonType::kText},
                                      {"pid_namespace", JsonType::kText},
                                      {"network_namespace", JsonType::kText},
                                      {"pid", JsonType::kWhole},
                                      {"start_ticks", JsonType::kWhole},
                                      {"since", JsonType::kText},
                                      {"slurm_job", JsonType::kText},
                                      {"slurm_node", JsonType::kText},
                                      {"slurm_restarts", JsonType::kWhole},
                                      {"directory_inode", JsonType::kText},
                                      {"supervisor_pid", JsonType::kWhole},
                                      {"supervisor_start_ticks", JsonType::kWhole}};

std::uint64_t start_ticks_of(std::int64_t pid) { return stat_field(pid, 22); }

// Read once, so that a later read failure cannot make this process look like another one. After a fork, the
// child reads its own.
std::uint64_t own_start_ticks() {
  thread_local pid_t of = -1;
  thread_local std::uint64_t ticks = 0;
  if (ticks == 0 || of != ::getpid()) {
    of = ::getpid();
    ticks = start_ticks_of(of);
  }
  return ticks;
}
const std::string& own_boot_id() {
  static const std::string id = boot_id();
  return id;
}

bool process_gone(std::int64_t pid, std::uint64_t start_ticks) {
  return start_ticks_of(pid) != start_ticks || !is_running(pid);
}

// Source: sbatch(1), output environment variables.
std::string slurm_job() { return environment_variable("SLURM_JOB_ID"); }
std::uint64_t slurm_restarts() {
  return std::strtoull(environment_variable("SLURM_RESTART_COUNT").c_str(), nullptr, 10);
}

}  // namespace

std::string own_claim(std::uint64_t directory_inode) {
  nlohmann::json json = {
      {"host", host_name()}, {"boot_id", own_boot_id()},         {"pid_namespace", pid_namespace()},
      {"pid", ::getpid()},   {"start_ticks", own_start_ticks()}, {"since", utc_now()}};
  json["network_namespace"] = network_namespace();
  json["directory_inode"] = str(directory_inode);  // a JSON number is read up to 2^63 - 1
  json["supervisor_pid"] = ::getppid();
  json["supervisor_start_ticks"] = start_ticks_of(::getppid());
  if (const std::string job = slurm_job(); !job.empty()) {
    json["slurm_job"] = job;
    json["slurm_node"] = environment_variable("SLURMD_NODENAME");
    json["slurm_restarts"] = slurm_restarts();
  }
  return json.dump() + "\n";
}

Result<Holder> read_claim(std::string_view text, const std::string& source) {
  REKINDLE_TRY(const nlohmann::json json, parse_object(text, kClaimFields, source));
  Holder holder;
  holder.host = json.value("host", "");
  holder.boot_id = json.value("boot_id", "");
  holder.pid_namespace = json.value("pid_namespace", "");
  holder.network_namespace = json.value("network_namespace", "");
  holder.pid = json.value("pid", std::int64_t{0});
  holder.start_ticks = json.value("start_ticks", std::uint64_t{0});
  holder.since = json.value("since", "");
  holder.slurm_job = json.value("slurm_job", "");
  holder.slurm_node = json.value("slurm_node", "");
  holder.slurm_restarts = json.value("slurm_restarts", std::uint64_t{0});
  holder.directory_inode = std::strtoull(json.value("directory_inode", "").c_str(), nullptr, 10);
  holder.supervisor_pid = json.value("supervisor_pid", std::int64_t{0});
  holder.supervisor_start_ticks = json.value("supervisor_start_ticks", std::uint64_t{0});
  return holder;
}

bool is_mine(const Holder& claim) {
  const std::uint64_t ticks = own_start_ticks();  // 0: unreadable
  return claim.pid == ::getpid() && (ticks == 0 || claim.start_ticks == ticks) &&
         claim.boot_id == own_boot_id();
}

bool is_of_my_child(const Holder& claim) {
  return claim.supervisor_pid == ::getpid() && claim.supervisor_start_ticks == own_start_ticks() &&
         claim.boot_id == own_boot_id();
}

bool is_of_my_supervisor(const Holder& claim) {
  return visible(claim) && claim.supervisor_pid == ::getppid() &&
         claim.supervisor_start_ticks == start_ticks_of(::getppid());
}

bool visible(const Holder& holder) {
  return holder.host == host_name() && holder.boot_id == boot_id() && holder.pid_namespace == pid_namespace();
}

bool shares_loopback(const Holder& holder) {
  const std::string own = network_namespace();
  const bool known = !holder.network_namespace.empty() && !own.empty();
  return holder.boot_id == boot_id() && (!known || holder.network_namespace == own);
}

bool provably_gone(const Holder& holder) {
  if (holder.ended) return true;
  if (!holder.slurm_job.empty() && holder.slurm_job == slurm_job() &&
      holder.slurm_restarts < slurm_restarts())
    return true;
  // In another container of this host, the holder may be alive but invisible. A zombie counts as gone.
  return visible(holder) && process_gone(holder.pid, holder.start_ticks);
}

bool looks_gone(const Holder& holder) {
  if (provably_gone(holder)) return true;
  if (holder.host != host_name() || holder.boot_id == boot_id()) return false;
  const auto age = age_of(holder.since);
  return age && *age >= boot_time();
}

bool supervisor_gone(const Holder& holder) {
  if (holder.supervisor_pid == 0) return false;
  if (holder.host == host_name() && holder.boot_id != boot_id()) return looks_gone(holder);
  return visible(holder) && process_gone(holder.supervisor_pid, holder.supervisor_start_ticks);
}

bool suspended(const Holder& holder) {
  return visible(holder) && start_ticks_of(holder.pid) == holder.start_ticks && is_suspended(holder.pid);
}

bool attended(const Holder& holder) {
  return visible(holder) && !supervisor_gone(holder) && !is_suspended(holder.supervisor_pid) &&
         !suspended(holder);
}

}  // namespace rekindle::run
