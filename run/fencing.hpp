// What a coordinator may still do with the run directory, given the newest term that it sees: the decisions
// of fencing, without files. run/terms.hpp looks at the files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.hpp"

namespace rekindle::run {

// What a coordinator sees of the claims.
struct SeenClaims {
  std::uint64_t newest = 0;     // the newest term; 0: there are no claims
  bool newest_is_mine = false;  // this process claimed `newest`
  bool own_is_missing = false;  // the own claim is certainly not there
};

// The term that holds the run: `own` or a higher term; own + 1 if the directory belongs to another run by
// now; nullopt if the own claim cannot be seen: the storage is away, or the directory was moved.
std::optional<std::uint64_t> term_in_charge(const SeenClaims& claims, std::uint64_t own);

// Calls `change` if the term in charge is `own`. Else the error, and `higher_term` if there is one.
Status change_in_charge(const Result<std::uint64_t>& in_charge, std::uint64_t own, std::uint64_t& higher_term,
                        const std::function<Status()>& change);

// The storage, as the commit of one checkpoint needs it.
class CommitStorage {
 public:
  virtual ~CommitStorage() = default;
  virtual Result<std::uint64_t> term_in_charge() = 0;
  virtual bool superseded() = 0;        // the quick look for the next term
  virtual void await_shards() = 0;      // until all shards are visible, but not for ever
  virtual Status write_manifest() = 0;  // renames the manifest into place
  virtual Status note_newest() = 0;     // writes the file `newest`
  virtual Status sweep() = 0;           // removes old checkpoints
};

// The commit of one checkpoint. Each part may take long on slow storage, and another coordinator may take
// over meanwhile. So each change has its own look at the terms, right before it, and after every wait.
class FencedCommit {
 public:
  enum class Part { kShards, kManifest, kNote, kSweep, kDone };

  FencedCommit(CommitStorage& storage, std::uint64_t own_term) : storage_(storage), own_term_(own_term) {}

  Part next() const { return next_; }
  void step();  // does the next part
  void run() {
    while (next_ != Part::kDone) step();
  }

  // A term that has taken over; 0: none was seen.
  std::uint64_t higher_term() const { return higher_term_; }
  const Status& committed() const { return committed_; }
  // Errors that do not matter to the commit.
  const Status& noted() const { return noted_; }
  const Status& swept() const { return swept_; }

 private:
  CommitStorage& storage_;
  const std::uint64_t own_term_;
  Part next_ = Part::kShards;
  std::uint64_t higher_term_ = 0;
  std::optional<Result<std::uint64_t>> early_look_;  // only with a planted bug
  Status committed_, noted_, swept_;
};

}  // namespace rekindle::run
