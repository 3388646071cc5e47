// The names of all files in a run directory.
//
//   run.toml  environment  coordinator.json  status.json  stop.json  terms/NNNN  key/  checkpoints/
//   attempts.jsonl metrics.jsonl events.jsonl  logs/  init.safetensors  bin/  requeue.json  resubmit.sh
//   job.sh  newest  page.json  tensorboard/  script/
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/file_path.hpp"

namespace rekindle::run {

namespace fs = std::filesystem;

// The most bytes of a small file that one process writes for another. A longer file is not read.
inline constexpr std::size_t kMostOfANote = std::size_t{64} << 10;

// Every file of a run directory is opened through a FilePath from here: without following links, and only if
// no other user could have changed it (base/file_path.hpp).
class Layout {
 public:
  // kForeign: for inspecting a directory that may belong to another user; nothing can be written there.
  // `inode`: the directory's inode when the run first used it, on any node (inode_of() in run/trust.hpp).
  // Another directory in its place is not used. 0: not known yet.
  explicit Layout(fs::path root, Trust trust = Trust::kOwn, std::uint64_t inode = 0)
      : root_(FilePath::below(std::move(root), trust, {}, inode)) {}
  const FilePath& root() const { return root_; }
  FilePath config() const { return root_ / "run.toml"; }
  FilePath environment() const { return root_ / "environment"; }
  FilePath coordinator() const { return root_ / "coordinator.json"; }
  FilePath stop_request() const { return root_ / "stop.json"; }
  FilePath status() const { return root_ / "status.json"; }
  FilePath terms() const { return root_ / "terms"; }
  FilePath keys() const { return root_ / "key"; }
  FilePath page_token() const { return keys() / "page-token"; }
  FilePath page_place() const { return root_ / "page.json"; }  // where the page is served
  FilePath key_pair() const { return keys() / "run.pem"; }
  FilePath checkpoints() const { return root_ / "checkpoints"; }
  FilePath newest_checkpoint() const { return root_ / "newest"; }
  FilePath initial_state() const { return root_ / "init.safetensors"; }
  FilePath attempts() const { return root_ / "attempts.jsonl"; }
  FilePath programs() const { return root_ / "bin"; }
  FilePath script() const { return root_ / "script"; }  // a folder with the Python script of this attempt
  FilePath requeue() const { return root_ / "requeue.json"; }
  FilePath resubmit_script() const { return root_ / "resubmit.sh"; }
  FilePath job_script() const { return root_ / "job.sh"; }
  FilePath metrics() const { return root_ / "metrics.jsonl"; }
  FilePath events() const { return root_ / "events.jsonl"; }
  FilePath logs() const { return root_ / "logs"; }
  FilePath tensorboard() const { return root_ / "tensorboard"; }
  // The options that pass this layout to another process of the run.
  std::vector<std::string> options() const {
    return {kDirectoryOption, root_.string(), kInodeOption, std::to_string(root_.root_inode())};
  }
  static constexpr const char *kDirectoryOption = "--run-dir", *kInodeOption = "--run-dir-inode";

  FilePath log(const std::string& process) const { return logs() / (process + ".log"); }

 private:
  FilePath root_;
};

}  // namespace rekindle::run
