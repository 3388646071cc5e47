// The virtual run directory on shared storage: terms, coordinator.json, shards, manifests, the file `newest`,
// the stop request. A file created on one host becomes visible on the others with a delay; exclusive creation
// is atomic, and the content of an existing file is the same for all hosts (close-to-open consistency).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/listing.hpp"
#include "engine.hpp"
#include "model.hpp"
#include "protocol/messages.hpp"

namespace rekindle::sim {

// When and on which host a file was made.
struct Made {
  Ms at = 0;
  std::string on;
};

struct StoredShard {
  State state{};
  bool tainted = false, durable = false, deleted = false;
  std::string writer;
  Made made;
};

struct CheckpointId {
  std::uint64_t step = 0;
  protocol::GenerationId generation;
  friend auto operator<=>(const CheckpointId&, const CheckpointId&) = default;
  std::string name() const;
  checkpoint::CheckpointId real() const { return {step, generation.term, generation.number}; }
};

struct StoredCheckpoint {
  std::map<int, StoredShard> shards;  // by rank
  bool committed = false, set_aside = false, damaged = false;
  Made manifest;
  State state{};
  bool tainted = false;
};

struct TermHolder {
  std::uint64_t term = 0;
  const class Process* holder = nullptr;
  int attempt = 0;
  Made claim;
  std::optional<Made> end;  // terms/NNNN.ended
};

class Disk {
 public:
  Disk(Engine& engine, Ms lag, Ms checkpoint_lag)
      : engine_(engine), lag_(lag), checkpoint_lag_(checkpoint_lag) {}

  // Whether a claim or an address is visible on host `here`; whether a file of a checkpoint is.
  bool shows(const Made& made, const std::string& here) const {
    return made.on == here || engine_.now() >= made.at + lag_;
  }
  bool shows_checkpoint(const Made& made, const std::string& here) const {
    return made.on == here || engine_.now() >= made.at + checkpoint_lag_;
  }
  Made made_on(const std::string& host) const { return {engine_.now(), host}; }

  // ---- terms ----
  const TermHolder* newest_term() const { return terms_.empty() ? nullptr : &terms_.back(); }
  const TermHolder* newest_term(const std::string& here) const;  // that is visible there
  const TermHolder* term(std::uint64_t term) const;
  // Exclusive creation: false if the claim exists, visible or not.
  bool claim(std::uint64_t term, const Process& holder);
  void end_term(std::uint64_t term, const std::string& host);
  struct Place {
    std::uint64_t term = 0;
    Made made;
  };
  void publish(std::uint64_t term, const std::string& host) { places_.push_back({term, made_on(host)}); }
  const Place* place(const std::string& here) const;

  // ---- checkpoints ----
  std::map<CheckpointId, StoredCheckpoint>& checkpoints() { return checkpoints_; }
  StoredCheckpoint* find(const std::string& name);
  CheckpointId id_of(const std::string& name) const;                    // only for names that find() finds
  std::vector<std::pair<CheckpointId, StoredCheckpoint*>> committed();  // newest first
  // What a host sees of the directories, and of those that are committed; newest first.
  std::vector<checkpoint::Listed> listed(const std::string& here) const;
  std::vector<checkpoint::CheckpointId> committed(const std::string& here) const;
  std::optional<CheckpointId> noted;  // what the file `newest` names
  bool full() const { return engine_.now() < full_until_; }
  bool away() const { return engine_.now() < away_until_; }
  // Of a write that begins now.
  Ms delay() const { return engine_.now() < slow_until_ ? slow_by_ : 0; }
  void fill_until(Ms when) { full_until_ = std::max(full_until_, when); }
  void away_until(Ms when) { away_until_ = std::max(away_until_, when); }
  void slow_until(Ms when, Ms by) {
    slow_until_ = std::max(slow_until_, when);
    slow_by_ = by;
  }

  // ---- records and requests ----
  std::uint64_t recorded_step = 0;
  std::map<std::uint64_t, bool> evaluated;
  bool stop_requested = false;

 private:
  Engine& engine_;
  Ms lag_, checkpoint_lag_, full_until_ = 0, slow_until_ = 0, slow_by_ = 0, away_until_ = 0;
  std::vector<TermHolder> terms_;
  std::vector<Place> places_;
  std::map<CheckpointId, StoredCheckpoint> checkpoints_;
};

}  // namespace rekindle::sim
