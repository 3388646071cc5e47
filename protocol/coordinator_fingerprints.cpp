// Which trainers may train together: trainers of one build that compute the same bits, and with --exchange
// nccl, trainers on different GPUs.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/fingerprint.hpp"

namespace rekindle::protocol {

namespace {

constexpr const char* kOneKind = "all trainers of a run need CPUs and GPUs of one kind";

std::string named(const TrainerReady& ready) {
  return str("trainer ", ready.trainer, " on ", ready.host, " (", ready.machine, ")");
}

}  // namespace

std::string Coordinator::what_counts(const std::string& fingerprint) const {
  return ledger_.committed.newest() == nullptr ? fingerprint : without_initial_values(fingerprint);
}

bool Coordinator::same_fingerprint(const TrainerReady& ready, bool bits) const {
  if (ready.fingerprint == fingerprint_.text) return true;
  const std::string theirs = what_counts(ready.fingerprint), ours = what_counts(fingerprint_.text);
  return bits ? bits_of(theirs) == bits_of(ours) : same_but_first_gradient(theirs, ours);
}

Finish Coordinator::mismatch(const TrainerReady& ready) const {
  if (same_fingerprint(ready, false)) {
    const std::string theirs = without_initial_values(ready.fingerprint),
                      ours = without_initial_values(fingerprint_.text);
    if (bits_of(theirs) == bits_of(ours))
      return {78, str(named(ready), " begins with other initial values than the others"),
              "does the model draw numbers without a seed, or read a file that is another one there?"};
    return {78, str(named(ready), " computes other bits than the others (", fingerprint_.machine, ")"),
            kOneKind};
  }
  return {78,
          str("trainer ", ready.trainer, " on ", ready.host, " does not match the other trainers: it has ",
              differences(ready.fingerprint, fingerprint_.text)),
          "all trainers of a run need the same build and number of threads, and CPUs and GPUs of one kind"};
}

// Refuses all trainers with another fingerprint. Their workers are refused as well, because all trainers of a
// worker are on one machine.
void Coordinator::take_fingerprint(const TrainerReady& ready, bool bits) {
  fingerprint_.text = ready.fingerprint;
  fingerprint_.machine = ready.machine;
  std::set<std::string> refused;
  for (const auto& [name, trainer] : membership_.trainers) {
    if (same_fingerprint(trainer.ready, bits) || !refused.insert(trainer.worker).second) continue;
    refuse(trainer.worker, mismatch(trainer.ready));
  }
  std::vector<std::string> others;
  for (const auto& [name, trainer] : membership_.trainers) {
    if (refused.contains(trainer.worker)) others.push_back(name);
  }
  lose(others, "it does not match the other trainers");
}

// The first generation uses the bits that most of the run's own trainers compute; without own trainers, the
// bits of the largest group of joined ones. False: there is no majority, and the run ends.
bool Coordinator::choose_bits() {
  const bool own = membership_.own_trainer_there();
  std::map<std::string, std::vector<TrainerReady>> groups;  // by bits_of() their fingerprint
  std::size_t voters = 0;
  for (const auto& [name, trainer] : membership_.trainers) {
    if (own && membership_.joined(trainer.worker)) continue;
    groups[bits_of(what_counts(trainer.ready.fingerprint))].push_back(trainer.ready);
    ++voters;
  }
  const auto largest =
      std::ranges::max_element(groups, {}, [](const auto& group) { return group.second.size(); });
  if (own && 2 * largest->second.size() <= voters) {
    const auto other = largest == groups.begin() ? std::next(largest) : groups.begin();
    end({78,
         str("the trainers compute different bits, and no majority says which are right: ",
             named(largest->second.front()), ", ", named(other->second.front())),
         kOneKind});
    return false;
  }
  take_fingerprint(largest->second.front(), true);
  return true;
}

// NCCL refuses two trainers on one GPU. With --exchange nccl, a member and a trainer of the run itself keep
// their GPU, and the other trainer is left out. If its worker has no other trainers, the worker is refused.
// False: the run ends with an error, or waits for trainers.
bool Coordinator::one_gpu_each() {
  if (config_.job.exchange != "nccl") return true;
  std::vector<const KnownTrainer*> all;
  for (const auto& [name, trainer] : membership_.trainers) all.push_back(&trainer);
  std::ranges::stable_sort(all, {}, [&](const KnownTrainer* each) {
    return std::pair(each->rank < 0, membership_.joined(each->worker));
  });
  std::map<std::string, const TrainerReady*> taken;              // by what NCCL takes for a GPU
  std::map<std::string, std::map<std::string, Finish>> surplus;  // why a trainer is, by worker and trainer
  for (const KnownTrainer* each : all) {
    const TrainerReady& ready = each->ready;
    const auto [first, is_free] = taken.emplace(ready.address.nccl, &ready);
    if (is_free) continue;
    const Finish no{78,
                    str("trainers ", first->second->trainer, " and ", ready.trainer, " on ", ready.host,
                        " share one GPU, and --exchange nccl needs a GPU for each trainer"),
                    "start fewer trainers on this machine, or use --exchange auto"};
    if (!history_.any_formed && !membership_.joined(each->worker)) {
      end(no);
      return false;
    }
    surplus[each->worker].emplace(ready.trainer, no);
  }
  if (surplus.empty()) return true;
  std::vector<std::string> others;
  for (const auto& [worker, trainers] : surplus) {
    // Others of its trainers may have GPUs of their own, and not be ready yet.
    const auto known = membership_.workers.find(worker);
    const std::size_t slots =
        known == membership_.workers.end() ? 1 : static_cast<std::size_t>(known->second.slots);
    const bool all_of_it = trainers.size() == slots;
    if (all_of_it) refuse(worker, trainers.begin()->second);
    for (const auto& [name, why] : trainers) {
      others.push_back(name);
      if (all_of_it) continue;
      emit(Warn{str(why.line, ": trainer ", name, " is left out")});
      emit(SendTrainer{worker, name, Quit{}});  // its worker starts no other one for it
    }
  }
  lose(others, "another trainer has its GPU");
  if (stop_ || enough_trainers()) return true;
  wait_for_trainers();
  return false;
}

bool Coordinator::other_fingerprint(const Restorable& restorable) const {
  return !restorable.fingerprint.empty() && bits_of(without_initial_values(restorable.fingerprint)) !=
                                                bits_of(without_initial_values(fingerprint_.text));
}

void Coordinator::warn_of_other_fingerprint(const Restorable& restorable) {
  if (!other_fingerprint(restorable) || std::exchange(fingerprint_.warned_of_other, true)) return;
  const std::string now = without_initial_values(fingerprint_.text),
                    then = without_initial_values(restorable.fingerprint);
  emit(Warn{str("the checkpoint was written by ", writer_of(is_script(config_.job), then, now),
                ": the trainers have ", differences(now, then), "; from here on the bits ",
                other_first_gradient(then, now) ? "differ" : "may differ")});
}

}  // namespace rekindle::protocol
