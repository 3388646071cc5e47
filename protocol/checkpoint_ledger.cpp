#include "protocol/checkpoint_ledger.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>

#include "base/invariant.hpp"
#include "base/planted.hpp"

namespace rekindle::protocol {

namespace {
constexpr int kReadTries = 5;
constexpr Time kReadPause{1000};  // doubled for each further try
// Between the tries to write the state at the end of a run.
constexpr std::array kFinalPauses{Time(0), Time(1000), Time(5000), Time(15000),
                                  FailedCheckpoints::kLongestPause};
}  // namespace

// ---- committed ----

const Restorable* CommittedCheckpoints::find(const std::string& checkpoint) const {
  const auto found = std::ranges::find(all_, checkpoint, &Restorable::checkpoint);
  return found == all_.end() ? nullptr : &*found;
}

bool CommittedCheckpoints::has_step(std::uint64_t step) const {
  return std::ranges::find(all_, step, &Restorable::step) != all_.end();
}

void CommittedCheckpoints::add(Restorable committed) {
  const auto older =
      std::ranges::find_if(all_, [&](const Restorable& r) { return r.step <= committed.step; });
  all_.insert(older, std::move(committed));
}

void CommittedCheckpoints::remove(const std::string& checkpoint) {
  std::erase_if(all_, [&](const Restorable& each) { return each.checkpoint == checkpoint; });
}

void CommittedCheckpoints::keep(const std::vector<std::string>& kept, const std::string& besides) {
  if (kept.empty()) return;
  std::erase_if(all_, [&](const Restorable& each) {
    return each.checkpoint != besides && std::ranges::find(kept, each.checkpoint) == kept.end();
  });
}

void CommittedCheckpoints::check() const {
  invariant(std::ranges::is_sorted(all_, std::ranges::greater{}, &Restorable::step),
            "committed checkpoints are not in the order of their steps");
}

// ---- being written ----

void OpenCheckpoint::check() const {
  const bool in_range = written.empty() || (written.begin()->first >= 0 &&
                                            std::prev(written.end())->first < std::ssize(writers));
  invariant(in_range, "a shard is of no writer");
  invariant(std::ranges::all_of(
                failed,
                [&](const auto& entry) { return std::ranges::find(writers, entry.first) != writers.end(); }),
            "a failure is of no writer");
  invariant(!committing || complete() || planted(Bug::kCommitWithMissingShard),
            "a checkpoint is committed without a shard");
}

bool OpenCheckpoint::equal() const {
  return std::ranges::all_of(
      written, [&](const auto& entry) { return entry.second.digest == written.begin()->second.digest; });
}

OpenCheckpoint* OpenCheckpoints::find(const CheckpointKey& key) {
  const auto found = all.find(key);
  return found == all.end() ? nullptr : &found->second;
}

bool OpenCheckpoints::any_of_step(std::uint64_t step) const {
  return std::ranges::any_of(all, [&](const auto& entry) { return entry.first.first == step; });
}

bool OpenCheckpoints::any_committing_beyond(std::uint64_t step) const {
  return std::ranges::any_of(
      all, [&](const auto& entry) { return entry.second.committing && entry.first.first > step; });
}

bool OpenCheckpoints::any_older_than(const GenerationId& generation) const {
  return std::ranges::any_of(all, [&](const auto& entry) { return entry.first.second < generation; });
}

bool OpenCheckpoints::any_that_pauses() const {
  return std::ranges::any_of(all, [](const auto& entry) { return entry.second.pauses; });
}

void FailedCheckpoints::failed(std::uint64_t step, std::string why) {
  auto& [times, last] = failures_[step];
  ++times;
  last = std::move(why);
}

std::optional<std::string> FailedCheckpoints::given_up(std::uint64_t step, std::uint64_t more) const {
  const auto found = failures_.find(step);
  if (found == failures_.end() || found->second.first <= kFinalPauses.size() + more) return std::nullopt;
  return found->second.second;
}

Time FailedCheckpoints::pause(std::uint64_t step) const {
  const auto found = failures_.find(step);
  if (found == failures_.end()) return Time(0);
  return kFinalPauses[std::min(found->second.first, kFinalPauses.size()) - 1];
}

void FailedCheckpoints::check() const {
  for (const auto& [step, failure] : failures_)
    invariant(failure.first > 0, "a failed checkpoint never failed");
}

// ---- suspect ----

void SuspectStates::raise(const GenerationId& generation, std::uint64_t last_trusted) {
  must_restore_ = true;
  generation_ = std::max(generation_, generation);
  narrow(generation, last_trusted);
}

void SuspectStates::narrow(const GenerationId& generation, std::uint64_t last_trusted) {
  const auto [at, fresh] = last_trusted_.emplace(generation, last_trusted);
  if (!fresh) at->second = std::min(at->second, last_trusted);
}

bool SuspectStates::forbids(const CheckpointKey& key) const {
  return std::any_of(last_trusted_.lower_bound(key.second), last_trusted_.end(),
                     [&key](const auto& entry) { return key.first > entry.second; });
}

void SuspectStates::check() const {
  invariant(last_trusted_.empty() ? !must_restore_ : last_trusted_.rbegin()->first == generation_,
            "a generation's states are suspect, and none of its checkpoints is forbidden");
}

// ---- restoring ----

void RestoreTries::begin(const std::string& checkpoint) {
  if (std::exchange(checkpoint_, checkpoint) != checkpoint) forget_tries();
}

void RestoreTries::take_over(const std::string& checkpoint, const std::string& verified) {
  checkpoint_ = checkpoint;
  verified_ = verified;
}

bool RestoreTries::went_on() {
  if (checkpoint_.empty() || verified_ == checkpoint_) return false;
  verified_ = checkpoint_;
  return true;
}

bool RestoreTries::failed_in(const GenerationId& generation) {
  return std::exchange(judged_, generation) != generation;
}

std::optional<Time> RestoreTries::try_again() {
  if (reads_ < kReadTries) return kReadPause * (1 << reads_++);
  reads_ = 0;
  return std::nullopt;
}

bool RestoreTries::let_others_try(std::size_t hosts) {
  if (hosts <= 1 || others_try()) return false;
  ++tries_;
  return true;
}

void RestoreTries::check() const {
  invariant(reads_ >= 0 && reads_ <= kReadTries, "a restore is tried too often");
  invariant(tries_ == 0 || tries_ == 1, "a damaged checkpoint is tried too often");
}

void CheckpointLedger::check() const {
  committed.check();
  for (const auto& [key, checkpoint] : open.all) checkpoint.check();
  failed.check();
  suspect.check();
  restore.check();
}

}  // namespace rekindle::protocol
