// Every name in a run directory, in one place.
//
//   run.toml  coordinator.json  status.json  stop.json  terms/NNNN  key/  checkpoints/  attempts.jsonl
//   metrics.jsonl  logs/  init.safetensors  bin/  requeue.json  resubmit.sh  job.sh  newest
#pragma once

#include <filesystem>
#include <string>

namespace rekindle::run {

namespace fs = std::filesystem;

class Layout {
 public:
  explicit Layout(fs::path root) : root_(std::move(root)) {}
  const fs::path& root() const { return root_; }
  fs::path config() const { return root_ / "run.toml"; }
  fs::path coordinator() const { return root_ / "coordinator.json"; }
  fs::path stop_request() const { return root_ / "stop.json"; }
  fs::path status() const { return root_ / "status.json"; }
  fs::path terms() const { return root_ / "terms"; }
  fs::path keys() const { return root_ / "key"; }
  fs::path private_key() const { return keys() / "run.key"; }
  fs::path certificate() const { return keys() / "run.crt"; }
  fs::path checkpoints() const { return root_ / "checkpoints"; }
  fs::path newest_checkpoint() const { return root_ / "newest"; }
  fs::path initial_state() const { return root_ / "init.safetensors"; }
  fs::path attempts() const { return root_ / "attempts.jsonl"; }
  fs::path programs() const { return root_ / "bin"; }
  fs::path requeue() const { return root_ / "requeue.json"; }
  fs::path resubmit_script() const { return root_ / "resubmit.sh"; }
  fs::path metrics() const { return root_ / "metrics.jsonl"; }
  fs::path logs() const { return root_ / "logs"; }
  fs::path log(const std::string& process) const { return logs() / (process + ".log"); }

 private:
  fs::path root_;
};

}  // namespace rekindle::run
