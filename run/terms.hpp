// Fencing: one coordinator at a time. A term is claimed by exclusive creation of terms/NNNN. A coordinator
// that finds a higher term than its own must stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "run/holder.hpp"
#include "run/layout.hpp"

namespace rekindle::run {

// No run reaches a higher term, because each start of a coordinator claims one term.
inline constexpr std::uint64_t kMostTerms = 999'999'999'999;

// Why a term has ended.
enum class TermEnd {
  kOrderly,   // the attempt is over: finished, stopped or given up
  kOrphaned,  // the coordinator's supervisor died; the attempt may go on under another supervisor
};

// The newest term, if any was ever claimed. An invalid claim is ExitCode::kConfig.
Result<std::optional<Holder>> newest_term(const Layout& layout);

// Whether the next term has been claimed. The check is cheap; on network storage the result may be late.
bool superseded(const Layout& layout, std::uint64_t term);

// The term that holds the run, for the process that claimed `own`: `own` or a higher term. If another process
// has claimed the same number, or only lower claims are left, the result is own + 1: the directory belongs to
// another run by now. An error if there are no claims: the storage is away, or the directory was moved.
Result<std::uint64_t> term_in_charge(const Layout& layout, std::uint64_t own);

// The callbacks of a claimant while another process may hold the run.
struct ClaimWait {
  std::chrono::milliseconds patience;             // a holder that is silent for this time counts as gone
  std::function<bool(const Holder&)> answers;     // whether the holder is alive now
  std::function<void(const Holder&)> waits = {};  // called once, when the wait begins; may be empty
  std::function<bool()> given_up = [] { return false; };  // whether to cancel the wait
  // 0, or the term whose supervisor has died: the claim may then follow only that term, or a later term of a
  // coordinator of this process's own supervisor. A later term of another process is ExitCode::kConfig, even
  // if ended.
  std::uint64_t lost = 0;
};

// The error for a run directory whose holder is alive.
Error held_error(const Layout& layout, const Holder& holder);

// Claims the next term for this process. A holder on another host that is not provably gone counts as gone
// when `answers` has returned false for `patience`. A live holder (one that answers for longer than the
// killed processes of a job need to die) is ExitCode::kConfig. ErrorKind::kAborted: `given_up` returned true.
Result<std::uint64_t> claim_term(const Layout& layout, const ClaimWait& wait);

// Marks the term as ended, so that the next claimant need not wait. Does nothing if neither this process nor
// one of its children claimed the term.
Status end_term(const Layout& layout, std::uint64_t term, TermEnd why = TermEnd::kOrderly);

}  // namespace rekindle::run
