// The virtual run directory on shared storage: terms, coordinator.json, shards, manifests, the stop request.
// A file created on one host becomes visible on the others with a delay; exclusive creation is atomic.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "model.hpp"
#include "protocol/messages.hpp"

namespace rekindle::sim {

struct StoredShard {
  State state{};
  bool tainted = false, durable = false, deleted = false;
  std::string writer;
};

struct CheckpointId {
  std::uint64_t step = 0;
  protocol::GenerationId generation;
  friend auto operator<=>(const CheckpointId&, const CheckpointId&) = default;
  std::string name() const;
};

struct StoredCheckpoint {
  std::map<int, StoredShard> shards;  // by rank
  bool committed = false, set_aside = false, damaged = false;
  Ms committed_at = 0;
  std::string committed_on;  // host
  State state{};
  bool tainted = false;
};

struct TermHolder {
  std::uint64_t term = 0;
  const class Process* holder = nullptr;
  bool ended = false;
};

class Disk {
 public:
  Disk(Engine& engine, Ms lag) : engine_(engine), lag_(lag) {}

  // Whether a change made on host `there` at time `when` is visible on host `here`.
  bool shows(Ms when, const std::string& there, const std::string& here) const {
    return there == here || engine_.now() >= when + lag_;
  }

  // ---- terms ----
  const TermHolder* newest_term() const { return terms_.empty() ? nullptr : &terms_.back(); }
  std::uint64_t claim(const Process& holder);
  void end_term(std::uint64_t term);
  struct Place {
    std::uint64_t term = 0;
    Ms written = 0;
    std::string host;
  };
  void publish(std::uint64_t term, const std::string& host) {
    places_.push_back({term, engine_.now(), host});
  }
  const Place* place(const std::string& here) const;

  // ---- checkpoints ----
  std::map<CheckpointId, StoredCheckpoint>& checkpoints() { return checkpoints_; }
  StoredCheckpoint* find(const std::string& name);
  CheckpointId id_of(const std::string& name) const;                    // only for names that find() finds
  std::vector<std::pair<CheckpointId, StoredCheckpoint*>> committed();  // newest first
  bool full() const { return engine_.now() < full_until_; }
  bool away() const { return engine_.now() < away_until_; }
  bool slow() const { return engine_.now() < slow_until_; }
  void fill_until(Ms when) { full_until_ = std::max(full_until_, when); }
  void away_until(Ms when) { away_until_ = std::max(away_until_, when); }
  void slow_until(Ms when) { slow_until_ = std::max(slow_until_, when); }

  // ---- records and requests ----
  std::uint64_t recorded_step = 0;
  std::map<std::uint64_t, bool> evaluated;
  bool stop_requested = false;

 private:
  Engine& engine_;
  Ms lag_, full_until_ = 0, slow_until_ = 0, away_until_ = 0;
  std::vector<TermHolder> terms_;
  std::vector<Place> places_;
  std::map<CheckpointId, StoredCheckpoint> checkpoints_;
};

}  // namespace rekindle::sim
