// Counts of a run's steps for programs that watch it. They never fall as long as the process lives, also when
// the run goes back to a checkpoint and makes steps again.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace rekindle::board {

// Seconds, in buckets that each are twice as wide as the one before.
class Durations {
 public:
  static constexpr std::size_t kBuckets = 24;  // the first ends at 1 ms, the last at 2.3 h
  static double upper_bound(std::size_t bucket);
  void add(double seconds, std::uint64_t times = 1);

  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  std::uint64_t up_to(std::size_t bucket) const;  // how many are at most upper_bound(bucket)

 private:
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

class Totals {
 public:
  static constexpr double kMillisecondsPerSecond = 1000;
  // The steps before this process began to watch: a curve of step_ms (docs/board.md), of which only the means
  // of neighbouring steps are known. `lost`: steps that were made again.
  void begin(const nlohmann::json& curve, std::uint64_t lost);
  // A step that was made since.
  void add(double milliseconds) { steps_.add(milliseconds / kMillisecondsPerSecond); }

  const Durations& steps() const { return steps_; }

 private:
  Durations steps_;
};

}  // namespace rekindle::board
