#include "run/fencing.hpp"

#include "base/planted.hpp"
#include "base/text.hpp"

namespace rekindle::run {

std::optional<std::uint64_t> term_in_charge(const SeenClaims& claims, std::uint64_t own) {
  if (claims.newest > own) return claims.newest;
  if (claims.newest == own) return claims.newest_is_mine ? own : own + 1;
  if (claims.newest > 0 && claims.own_is_missing) return own + 1;
  return std::nullopt;
}

Status change_in_charge(const Result<std::uint64_t>& in_charge, std::uint64_t own, std::uint64_t& higher_term,
                        const std::function<Status()>& change) {
  if (!in_charge) return forward_error(in_charge.error());
  if (*in_charge == own) return change();
  higher_term = *in_charge;
  return fail(str("term ", *in_charge, " has taken over"));
}

void FencedCommit::step() {
  switch (next_) {
    case Part::kShards:
      if (planted(Bug::kTermCheckBeforeShards)) early_look_ = storage_.term_in_charge();
      storage_.await_shards();
      next_ = Part::kManifest;
      return;
    case Part::kManifest: {
      const auto write = [this] { return storage_.write_manifest(); };
      const auto look = [this] { return early_look_ ? *early_look_ : storage_.term_in_charge(); };
      committed_ = planted(Bug::kCommitWithoutTermCheck)
                       ? write()
                       : change_in_charge(look(), own_term_, higher_term_, write);
      next_ = committed_ ? Part::kNote : Part::kDone;
      return;
    }
    case Part::kNote:
      next_ = Part::kDone;
      // A coordinator that has taken over writes its own note.
      if (storage_.superseded() && !planted(Bug::kNoteWhenSuperseded)) return;
      noted_ = storage_.note_newest();
      next_ = Part::kSweep;
      return;
    case Part::kSweep: {
      const auto sweep = [this] { return storage_.sweep(); };
      swept_ = planted(Bug::kSweepWithoutTermCheck)
                   ? sweep()
                   : change_in_charge(storage_.term_in_charge(), own_term_, higher_term_, sweep);
      next_ = Part::kDone;
      return;
    }
    case Part::kDone:
      return;
  }
}

}  // namespace rekindle::run
