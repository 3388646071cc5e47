// The data that a trainer reads from the run directory.
#pragma once

#include <functional>
#include <string>

#include "base/result.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::trainer {

class Storage {
 public:
  virtual ~Storage() = default;
  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  virtual bool has_checkpoint() = 0;
  // Fills `state` with the initial tensors of --init.
  virtual Status load_initial(const checkpoint::State& state) = 0;
  // Reads the manifest of checkpoint `name`. Waits for a directory that another host has created and this
  // host does not see yet.
  virtual Result<checkpoint::Manifest> read_manifest(const std::string& name) = 0;
  // Fills and verifies part `part` of `parts` of `state`. `each_block` is called before each block of the
  // read, which may take long; the read ends with its error.
  virtual Status read_part(const std::string& name, const checkpoint::Manifest& manifest, int parts, int part,
                           const checkpoint::State& state, const std::function<Status()>& each_block) = 0;
};

}  // namespace rekindle::trainer
