// Time is passed in, so that a simulation controls it.
#pragma once

#include <chrono>
#include <thread>

namespace rekindle::trainer {

class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual void sleep(std::chrono::milliseconds time) const = 0;

  double ms_since(TimePoint start) const {
    return std::chrono::duration<double, std::milli>(now() - start).count();
  }
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void sleep(std::chrono::milliseconds time) const override { std::this_thread::sleep_for(time); }
};

}  // namespace rekindle::trainer
