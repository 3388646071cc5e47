// The Storage of a real run: its run directory.
#pragma once

#include <functional>
#include <string>

#include "run/layout.hpp"
#include "trainer/storage.hpp"

namespace rekindle::trainer {

class RunStorage final : public Storage {
 public:
  // `initial_hash`: hash of the tensors from which the run starts; empty: the model draws its initial values.
  RunStorage(const run::Layout& layout, std::string initial_hash)
      : layout_(layout), initial_hash_(std::move(initial_hash)) {}

  bool has_checkpoint() override;
  Status load_initial(const checkpoint::State& state) override;
  Result<checkpoint::Manifest> read_manifest(const std::string& name) override;
  Status read_part(const std::string& name, const checkpoint::Manifest& manifest, int parts, int part,
                   const checkpoint::State& state, const std::function<Status()>& each_block) override;

 private:
  const run::Layout layout_;
  const std::string initial_hash_;
};

}  // namespace rekindle::trainer
