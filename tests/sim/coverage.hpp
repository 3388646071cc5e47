// Counts which pairs of (state, event) were reached. Names and indices come from the types, so an event that
// is added or moved is counted under its own name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protocol/coordinator.hpp"
#include "protocol/worker.hpp"

namespace rekindle::sim {

class Coverage {
 public:
  Coverage();

  void coordinator(protocol::Phase phase, const protocol::Event& event);
  void worker(int state, const protocol::WorkerEvent& event);
  void trainer(protocol::TrainerPhase phase, const protocol::ToTrainer& message);

  struct Summary {
    std::size_t possible = 0, reached = 0;
    std::string table, missing;
    std::string wrong;  // pairs declared impossible that were reached
    void add(const Summary& other);
  };
  // The summary of all three tables.
  Summary summary() const;

  // How often `event` (the name of its type) was counted in `state`. For the test of this class.
  std::uint64_t coordinator_count(const std::string& state, const std::string& event) const;

 private:
  struct Table {
    std::vector<std::string> states, events;
    std::vector<std::vector<std::uint64_t>> counts;  // [event][state]
    // (state, event): reason why the pair is impossible
    std::map<std::pair<std::size_t, std::size_t>, const char*> cannot;
    Table(std::vector<std::string> states, std::vector<std::string> events);
    Summary summary() const;
  };
  Table coordinator_, worker_, trainer_;
};

}  // namespace rekindle::sim
