// A file that tells Prometheus where the metrics of a run are. Source: Prometheus's file_sd_config.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/file_path.hpp"
#include "base/result.hpp"

namespace rekindle::board {

struct MetricsPlace {
  std::string address;  // at which /metrics listens
  std::uint16_t port = 0;
  std::filesystem::path folder;  // of the run, or of the runs
  bool one_run = false;          // the targets get the run's name and its Slurm job as labels
};

// Its text. `job`: of Slurm; empty: none.
std::string target_text(const MetricsPlace& place, const std::string& job);

// The file is there as long as this object. Each run has a file of its own, which its next attempt replaces.
class MetricsTarget {
 public:
  MetricsTarget(const std::filesystem::path& directory, const MetricsPlace& place);
  ~MetricsTarget();
  MetricsTarget(const MetricsTarget&) = delete;
  MetricsTarget& operator=(const MetricsTarget&) = delete;

  Status write() const;
  const FilePath& file() const { return file_; }

 private:
  const FilePath file_;
  const std::string text_;
};

}  // namespace rekindle::board
