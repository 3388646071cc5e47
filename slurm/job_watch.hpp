// What Slurm says of this job, asked now and then by a thread of its own: an answer may take long.
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
  std::uint64_t number = 0;  // of the question that it answers
  std::chrono::steady_clock::time_point at;
  JobFacts facts;
  std::set<std::string> nodes;  // that the job still has
};

class JobWatch {
 public:
  explicit JobWatch(const Environment& environment);
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;

  // Asks again, now; the number of the question.
  std::uint64_t look();
  // The newest answer, if there was one.
  std::optional<Look> latest() const;
  int fd() const;  // readable when there is a new answer...
  void heard();    // ... until this

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread, which ends after its last answer
};

}  // namespace rekindle::slurm
