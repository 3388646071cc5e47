// Which trainers may train together: trainers of one build that compute the same bits.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/fingerprint.hpp"

namespace rekindle::protocol {

namespace {

constexpr const char* kOneKind = "all trainers of a run need CPUs of one kind";

std::string named(const TrainerReady& ready) {
  return str("trainer ", ready.trainer, " on ", ready.host, " (", ready.machine, ")");
}

}  // namespace

bool Coordinator::same_fingerprint(const TrainerReady& ready, bool bits) const {
  return bits ? ready.fingerprint == fingerprint_.text
              : same_but_first_gradient(ready.fingerprint, fingerprint_.text);
}

Finish Coordinator::mismatch(const TrainerReady& ready) const {
  if (same_fingerprint(ready, false)) {
    return {78, str(named(ready), " computes other bits than the others (", fingerprint_.machine, ")"),
            kOneKind};
  }
  return {78,
          str("trainer ", ready.trainer, " on ", ready.host, " does not match the other trainers: it has ",
              differences(ready.fingerprint, fingerprint_.text)),
          "all trainers of a run need the same build, number of threads and kind of CPU"};
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
  std::map<std::string, std::vector<TrainerReady>> groups;  // by fingerprint
  std::size_t voters = 0;
  for (const auto& [name, trainer] : membership_.trainers) {
    if (own && membership_.joined(trainer.worker)) continue;
    groups[trainer.ready.fingerprint].push_back(trainer.ready);
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

bool Coordinator::other_fingerprint(const Restorable& restorable) const {
  return !restorable.fingerprint.empty() && restorable.fingerprint != fingerprint_.text;
}

void Coordinator::warn_of_other_fingerprint(const Restorable& restorable) {
  if (!other_fingerprint(restorable) || std::exchange(fingerprint_.warned_of_other, true)) return;
  const bool other_bits = other_first_gradient(restorable.fingerprint, fingerprint_.text);
  emit(Warn{str("the checkpoint was written by another build or machine: the trainers have ",
                differences(fingerprint_.text, restorable.fingerprint), "; from here on the bits ",
                other_bits ? "differ" : "may differ")});
}

}  // namespace rekindle::protocol
