#include "run/terms.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/json_reader.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "run/claimant.hpp"
#include "run/fencing.hpp"

namespace rekindle::run {
namespace {

std::string term_name(std::uint64_t term) {
  char name[24];
  std::snprintf(name, sizeof name, "%04llu", static_cast<unsigned long long>(term));
  return name;
}

// The number in the name of a claim; nullopt: not a claim's name. Each number has exactly one name.
std::optional<std::uint64_t> term_in(const std::string& name) {
  std::uint64_t term = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), term);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && term_name(term) == name ? std::optional(term) : std::nullopt;
}

constexpr JsonField kClaimFields[] = {{"host", JsonType::kText},
                                      {"boot_id", JsonType::kText},
                                      {"pid_namespace", JsonType::kText},
                                      {"pid", JsonType::kWhole},
                                      {"start_ticks", JsonType::kWhole},
                                      {"since", JsonType::kText},
                                      {"slurm_job", JsonType::kText},
                                      {"slurm_node", JsonType::kText},
                                      {"slurm_restarts", JsonType::kWhole},
                                      {"supervisor_pid", JsonType::kWhole},
                                      {"supervisor_start_ticks", JsonType::kWhole}};
constexpr std::size_t kMostClaimBytes = 65536;

// The hint for a claim that no run has written.
constexpr const char* kRemoveClaim = "remove it if no run uses this directory";

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

bool is_mine(const Holder& claim) {
  const std::uint64_t ticks = own_start_ticks();  // 0: unreadable
  return claim.pid == ::getpid() && (ticks == 0 || claim.start_ticks == ticks) &&
         claim.boot_id == own_boot_id();
}

// Whether a child of this process made the claim.
bool is_of_my_child(const Holder& claim) {
  return claim.supervisor_pid == ::getpid() && claim.supervisor_start_ticks == own_start_ticks() &&
         claim.boot_id == own_boot_id();
}

bool process_gone(std::int64_t pid, std::uint64_t start_ticks) {
  return start_ticks_of(pid) != start_ticks || !is_running(pid);
}

FilePath mark_of(const Layout& layout, std::uint64_t term) {
  return layout.terms() / (term_name(term) + ".ended");
}

// The text in the mark of a term whose supervisor died.
constexpr const char* kOrphanedMark = "orphaned";

// Source: sbatch(1), output environment variables.
std::string slurm_job() { return environment_variable("SLURM_JOB_ID"); }
std::uint64_t slurm_restarts() {
  return std::strtoull(environment_variable("SLURM_RESTART_COUNT").c_str(), nullptr, 10);
}

}  // namespace

Result<std::optional<Holder>> newest_term(const Layout& layout) {
  std::uint64_t newest = 0;
  REKINDLE_TRY(const auto names, names_in(layout.terms()));
  for (const std::string& name : names) newest = std::max(newest, term_in(name).value_or(0));
  if (newest == 0) return std::optional<Holder>();
  const FilePath path = layout.terms() / term_name(newest);
  if (newest > kMostTerms)
    return fail(ExitCode::kConfig, str(path.string(), ": there are no terms above ", kMostTerms),
                kRemoveClaim);
  REKINDLE_TRY(const std::string text, read_text(path, kMostClaimBytes));
  const auto claim = parse_object(text, kClaimFields, path.string());
  if (!claim) return fail(ExitCode::kConfig, claim.error().what, kRemoveClaim);
  const nlohmann::json& json = *claim;
  Holder holder;
  holder.term = newest;
  holder.host = json.value("host", "");
  holder.boot_id = json.value("boot_id", "");
  holder.pid_namespace = json.value("pid_namespace", "");
  holder.pid = json.value("pid", std::int64_t{0});
  holder.start_ticks = json.value("start_ticks", std::uint64_t{0});
  holder.since = json.value("since", "");
  holder.slurm_job = json.value("slurm_job", "");
  holder.slurm_node = json.value("slurm_node", "");
  holder.slurm_restarts = json.value("slurm_restarts", std::uint64_t{0});
  holder.supervisor_pid = json.value("supervisor_pid", std::int64_t{0});
  holder.supervisor_start_ticks = json.value("supervisor_start_ticks", std::uint64_t{0});
  holder.ended = path_exists(mark_of(layout, newest));
  holder.orphaned =
      holder.ended &&
      read_text(mark_of(layout, newest), kMostOfANote).value_or("").find(kOrphanedMark) != std::string::npos;
  return std::optional(holder);
}

bool superseded(const Layout& layout, std::uint64_t term) {
  return path_exists(layout.terms() / term_name(term + 1));
}

Result<std::uint64_t> term_in_charge(const Layout& layout, std::uint64_t own) {
  REKINDLE_TRY(const auto newest, newest_term(layout));
  SeenClaims claims;
  if (newest) claims = {newest->term, is_mine(*newest), false};
  if (newest && newest->term < own) {
    const auto there = look_at(layout.terms() / term_name(own));
    claims.own_is_missing = there && !*there;
  }
  if (const auto term = term_in_charge(claims, own)) return *term;
  return fail(str("this run's claim is not in ", layout.terms().string()),
              "is the storage away, or was the run directory moved?");
}

bool visible(const Holder& holder) {
  return holder.host == host_name() && holder.boot_id == boot_id() && holder.pid_namespace == pid_namespace();
}

bool provably_gone(const Holder& holder) {
  if (holder.ended) return true;
  if (!holder.slurm_job.empty() && holder.slurm_job == slurm_job() &&
      holder.slurm_restarts < slurm_restarts())
    return true;
  if (holder.host != host_name()) return false;
  if (holder.boot_id != boot_id()) {
    // A different host with the same name may have been up for longer than the claim's age.
    const auto age = age_of(holder.since);
    return age && *age >= boot_time();
  }
  // In another container of this host, the holder may be alive but invisible. A zombie counts as gone.
  return visible(holder) && process_gone(holder.pid, holder.start_ticks);
}

bool supervisor_gone(const Holder& holder) {
  if (holder.supervisor_pid == 0) return false;
  if (holder.host == host_name() && holder.boot_id != boot_id()) return provably_gone(holder);
  return visible(holder) && process_gone(holder.supervisor_pid, holder.supervisor_start_ticks);
}

bool suspended(const Holder& holder) {
  return visible(holder) && start_ticks_of(holder.pid) == holder.start_ticks && is_suspended(holder.pid);
}

bool attended(const Holder& holder) {
  return visible(holder) && !supervisor_gone(holder) && !is_suspended(holder.supervisor_pid) &&
         !suspended(holder);
}

namespace {

constexpr std::chrono::milliseconds kBetweenTries{500};

std::optional<SeenTerm> seen(const std::optional<Holder>& holder) {
  if (!holder) return std::nullopt;
  return SeenTerm{holder->term, holder->ended, provably_gone(*holder)};
}

Result<std::optional<std::uint64_t>> try_claim(const Layout& layout, Claimant& claimant) {
  REKINDLE_CHECK(make_directories(layout.terms()));
  REKINDLE_TRY(const auto holder, newest_term(layout));
  // A claimant may have died between making the folder and syncing its name: a loss of power would then take
  // the folder, and with it this claim.
  if (!holder) REKINDLE_CHECK(sync_directory(layout.root()));
  const auto term = claimant.term_to_claim(seen(holder));
  if (!term) return std::optional<std::uint64_t>();
  nlohmann::json json = {
      {"host", host_name()}, {"boot_id", own_boot_id()},         {"pid_namespace", pid_namespace()},
      {"pid", ::getpid()},   {"start_ticks", own_start_ticks()}, {"since", utc_now()}};
  json["supervisor_pid"] = ::getppid();
  json["supervisor_start_ticks"] = start_ticks_of(::getppid());
  if (const std::string job = slurm_job(); !job.empty()) {
    json["slurm_job"] = job;
    json["slurm_node"] = environment_variable("SLURMD_NODENAME");
    json["slurm_restarts"] = slurm_restarts();
  }
  REKINDLE_TRY(const bool created, create_exclusively(layout.terms() / term_name(*term), json.dump() + "\n"));
  return claimant.on_created(*term, created) ? term : std::nullopt;
}

Status check_succeeds(const Layout& layout, std::uint64_t lost) {
  REKINDLE_TRY(const auto holder, newest_term(layout));
  const bool ended = holder && holder->ended && !holder->orphaned;
  const bool of_own_supervisor = holder && visible(*holder) && holder->supervisor_pid == ::getppid() &&
                                 holder->supervisor_start_ticks == start_ticks_of(::getppid());
  if (!holder || (holder->term == lost && !ended) || (of_own_supervisor && holder->term > lost)) return {};
  if (holder->term == lost) return fail(ExitCode::kConfig, "the run has ended meanwhile");
  return fail(ExitCode::kConfig, "another process has taken over the run");
}

}  // namespace

Error held_error(const Layout& layout, const Holder& holder) {
  if (!holder.slurm_job.empty())
    return Error{ExitCode::kConfig,
                 str("the run directory ", layout.root().string(), " is held by a live run (Slurm job ",
                     holder.slurm_job, ", host ", holder.host, ", since ", holder.since, ")"),
                 str("wait for it, end it with `rekindle stop ", layout.root().string(), "` or `scancel ",
                     holder.slurm_job, "`, or use another --run-dir")};
  if (suspended(holder))
    return Error{
        ExitCode::kConfig,
        str("the run directory ", layout.root().string(), " is held by a run whose coordinator (host ",
            holder.host, ", pid ", holder.pid, ", since ", holder.since, ") is suspended"),
        str("kill -CONT ", holder.pid, " lets the run go on, or use another --run-dir")};
  return Error{
      ExitCode::kConfig,
      str("the run directory ", layout.root().string(), " is held by a live run (host ", holder.host,
          ", pid ", holder.pid, ", since ", holder.since, ")"),
      str("wait for it, end it with `rekindle stop ", layout.root().string(), "`, or use another --run-dir")};
}

Result<std::uint64_t> claim_term(const Layout& layout, const ClaimWait& wait) {
  bool waits = false;
  for (Claimant claimant(wait.patience);;) {
    const auto began = boot_time();
    if (wait.lost > 0) REKINDLE_CHECK(check_succeeds(layout, wait.lost));
    REKINDLE_TRY(const auto claimed, try_claim(layout, claimant));
    if (claimed) return *claimed;
    REKINDLE_TRY(const auto holder, newest_term(layout));
    const bool asks = Claimant::has_to_ask(seen(holder));
    const bool alive = asks && wait.answers(*holder);
    if (alive && claimant.on_answer()) return forward_error(held_error(layout, *holder));
    if (asks && !alive && wait.waits && !std::exchange(waits, true)) wait.waits(*holder);
    // A live holder is refused within seconds, which is what its claimant has to hear.
    if (!alive && wait.given_up())
      return forward_error(
          {ExitCode::kGaveUp, "the wait for the run directory was cancelled", {}, ErrorKind::kAborted});
    std::this_thread::sleep_for(kBetweenTries);
    if (asks && !alive) claimant.on_silence(holder->term, boot_time() - began);
  }
}

Status end_term(const Layout& layout, std::uint64_t term, TermEnd why) {
  const auto newest = newest_term(layout);
  const bool lower = newest && *newest && (*newest)->term < term;
  const bool others =
      newest && *newest && (*newest)->term == term && !is_mine(**newest) && !is_of_my_child(**newest);
  if (lower || others) return {};  // the directory belongs to another run by now
  const char* mark = why == TermEnd::kOrphaned ? kOrphanedMark : "";
  return replace_file(mark_of(layout, term), str(utc_now(), " ", mark, "\n"));
}

}  // namespace rekindle::run
