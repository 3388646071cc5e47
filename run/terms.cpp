#include "run/terms.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "run/claimant.hpp"
#include "run/fencing.hpp"
#include "run/trust.hpp"

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

constexpr std::size_t kMostClaimBytes = 65536;

// The hint for a claim that no run has written.
constexpr const char* kRemoveClaim = "remove it if no run uses this directory";

FilePath mark_of(const Layout& layout, std::uint64_t term) {
  return layout.terms() / (term_name(term) + ".ended");
}

// Whether this directory is a copy, and the claim's process holds the original. On another host, the same
// directory may have another inode (some FUSE mounts), and a process that is not visible may be gone: then
// the silence decides.
Result<bool> is_of_another_directory(const Layout& layout, const Holder& holder) {
  if (holder.directory_inode == 0 || !visible(holder)) return false;
  REKINDLE_TRY(const std::uint64_t inode, inode_of(layout));
  if (inode == holder.directory_inode) return false;
  // A live run writes its status every few seconds. Two paths to one directory may have different inodes,
  // too.
  constexpr std::time_t kLive = 10;
  REKINDLE_TRY(const auto status, look_at(layout.status()));
  return !status || std::abs(std::time(nullptr) - status->st_mtim.tv_sec) > kLive;
}

// The text in the mark of a term whose supervisor died.
constexpr const char* kOrphanedMark = "orphaned";

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
  auto claim = read_claim(text, path.string());
  if (!claim) return fail(ExitCode::kConfig, claim.error().what, kRemoveClaim);
  Holder& holder = *claim;
  holder.term = newest;
  REKINDLE_TRY(const bool of_another, is_of_another_directory(layout, holder));
  holder.ended = of_another || path_exists(mark_of(layout, newest));
  holder.orphaned =
      holder.ended &&
      read_text(mark_of(layout, newest), kMostOfANote).value_or("").find(kOrphanedMark) != std::string::npos;
  return std::optional(std::move(holder));
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
  REKINDLE_TRY(const std::uint64_t inode, inode_of(layout));
  REKINDLE_TRY(const bool created, create_exclusively(layout.terms() / term_name(*term), own_claim(inode)));
  return claimant.on_created(*term, created) ? term : std::nullopt;
}

Status check_succeeds(const Layout& layout, std::uint64_t lost) {
  REKINDLE_TRY(const auto holder, newest_term(layout));
  const bool ended = holder && holder->ended && !holder->orphaned;
  const bool of_own_supervisor = holder && is_of_my_supervisor(*holder);
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
