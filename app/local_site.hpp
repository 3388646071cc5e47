// A run on this machine: workers are started here, and signals go to this process.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "app/options.hpp"
#include "app/site.hpp"
#include "app/workers.hpp"

namespace rekindle::app {

class LocalSite : public Site {
 public:
  explicit LocalSite(const LocalOptions& options)
      : options_(options), machine_(options.workers, contained_worker(options.job, options.run_dir)) {}

  Machines& machines() override { return machine_; }
  std::uint64_t trainers() const override { return options_.workers * options_.job.trainers_per_worker; }
  std::vector<std::string> worker_arguments() const override { return worker_of(options_.layout()); }
  void on_signal(int, bool) override {
    const std::chrono::milliseconds within(options_.job.stop_within_ms);
    if (!limit_ && within.count() > 0) limit_ = Clock::now() + within;
  }
  std::optional<Clock::time_point> limit() override { return limit_; }

 private:
  const LocalOptions& options_;
  ThisMachine machine_;
  std::optional<Clock::time_point> limit_;
};

}  // namespace rekindle::app
