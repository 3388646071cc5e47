// Fencing: one coordinator at a time. A term is claimed by exclusive creation of terms/NNNN; whoever finds a
// higher one than its own is history.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::run {

// A higher term is no run's: each start of a coordinator claims one.
inline constexpr std::uint64_t kMostTerms = 999'999'999'999;

struct Holder {
  std::uint64_t term = 0;
  std::string host, boot_id;
  std::string pid_namespace;  // pid's
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  // of the process: tells a reused pid
  std::string slurm_job;          // and how often it had been requeued; empty: none
  std::uint64_t slurm_restarts = 0;
  std::string slurm_node;  // Slurm's name of the holder's node; empty: none
  std::string since;
  // The process that started the holder, its supervisor; it may start another coordinator. 0: not known.
  std::int64_t supervisor_pid = 0;
  std::uint64_t supervisor_start_ticks = 0;
  bool ended = false;     // terms/NNNN.ended is there
  bool orphaned = false;  // ended because its supervisor had died, and not because the run had ended
};

// Why a term has ended.
enum class TermEnd {
  kOrderly,   // the attempt is over: finished, stopped or given up
  kOrphaned,  // the coordinator's supervisor died; the attempt may go on under another supervisor
};

// The newest term, if any was ever claimed. A claim that cannot be read as one is ExitCode::kConfig.
Result<std::optional<Holder>> newest_term(const Layout& layout);

// Whether somebody has claimed the term after this one. Cheap, and on network storage true some time late.
bool superseded(const Layout& layout, std::uint64_t term);

// The term that has the run, for the process that claimed `own`: that one, or a higher one. A claim of the
// same number by another process counts as the next, and so do lower ones without the own one: the directory
// is another run's by now. An error where there are no claims: the storage is away, or the directory was
// moved.
Result<std::uint64_t> term_in_charge(const Layout& layout, std::uint64_t own);

// Whether this process would see the holder's process if that were alive.
bool visible(const Holder& holder);

// Whether that holder is provably gone: ended by itself, dead on this host, or this host was booted since.
// Two hosts may have one name. An earlier attempt of this process's own Slurm job counts as gone: it was
// requeued, and whatever is left of it has lost.
bool provably_gone(const Holder& holder);

// Claims the next term for this process. A holder on another host that is not provably gone counts as gone
// when `answers()` (does its coordinator's port answer?) has said no for `patience`. A live holder, one that
// answers for longer than a job's processes take to die when they are killed, is ExitCode::kConfig.
//
// `lost`: 0, or the term whose supervisor has died: only that one may be succeeded, and what a coordinator of
// this process's own supervisor has claimed since. A later one of others is ExitCode::kConfig, ended or not.
template <class Answers>
Result<std::uint64_t> claim_term(const Layout& layout, std::chrono::milliseconds patience, Answers&& answers,
                                 std::uint64_t lost = 0);

// Whether the holder's supervisor is provably dead: it ran on this host, and its process is gone.
bool supervisor_gone(const Holder& holder);

// Marks the term as ended, so that the next claimant need not wait. Does nothing for a term that neither this
// process nor a child of it has claimed.
Status end_term(const Layout& layout, std::uint64_t term, TermEnd why = TermEnd::kOrderly);

// ---- implementation of the template ----
Result<std::optional<std::uint64_t>> try_claim(const Layout& layout, bool holder_is_gone);
Error held_error(const Layout& layout, const Holder& holder);
Status check_succeeds(const Layout& layout, std::uint64_t lost);
void wait_between_tries();
inline constexpr std::chrono::milliseconds kLongestTry{3000};
inline constexpr int kAnswersOfTheDying = 6;

template <class Answers>
Result<std::uint64_t> claim_term(const Layout& layout, std::chrono::milliseconds patience, Answers&& answers,
                                 std::uint64_t lost) {
  int answered = 0;
  for (auto silent = std::chrono::milliseconds(0);;) {
    const auto began = boot_time();
    if (lost > 0) REKINDLE_CHECK(check_succeeds(layout, lost));
    REKINDLE_TRY(const auto claimed, try_claim(layout, silent >= patience));
    if (claimed) return *claimed;
    REKINDLE_TRY(const auto holder, newest_term(layout));
    const bool lost_race = !holder || holder->ended;  // to one whose term may not be seen yet
    const bool alive = !lost_race && answers(*holder);
    if (alive && ++answered == kAnswersOfTheDying) return forward_error(held_error(layout, *holder));
    wait_between_tries();
    // A try may take long; but a claimant that was itself held up has not heard silence all that time.
    if (!lost_race)
      silent = alive ? std::chrono::milliseconds(0) : silent + std::min(boot_time() - began, kLongestTry);
  }
}

}  // namespace rekindle::run
