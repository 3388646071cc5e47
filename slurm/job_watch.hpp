// Slurm's facts about this job. A separate thread asks for them periodically, because an answer may take
// long.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/files.hpp"
#include "slurm/commands.hpp"
#include "slurm/environment.hpp"

namespace rekindle::slurm {

struct Look {
  std::uint64_t number = 0;  // of the query
  std::chrono::steady_clock::time_point at;
  JobFacts facts;
  std::set<std::string> nodes;  // the nodes that the job still has
  bool host_stops = false;      // this host is being shut down
};

class JobWatch {
 public:
  explicit JobWatch(const Environment& environment);
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;

  // Starts a query now; returns its number.
  std::uint64_t look();
  // The newest answer. nullopt: no answer yet.
  std::optional<Look> latest() const;
  int fd() const;  // readable from a new answer on...
  void on_read();  // ... until this call

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // shared with the thread, which may outlive this object during a query
};

}  // namespace rekindle::slurm
