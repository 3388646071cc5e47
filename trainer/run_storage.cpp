#include "trainer/run_storage.hpp"

#include <tuple>

#include "base/files.hpp"
#include "checkpoint/initial_state.hpp"

namespace rekindle::trainer {

using checkpoint::Manifest;

bool RunStorage::has_checkpoint() { return !checkpoint::list_committed(layout_.root()).empty(); }

Status RunStorage::load_initial(const checkpoint::State& state) {
  const FilePath file = layout_.initial_state();
  std::ignore = await_file(file, kNamesAreSeenWithin);
  return checkpoint::load_initial(file, initial_hash_, state);
}

Result<Manifest> RunStorage::read_manifest(const std::string& name) {
  return checkpoint::read_manifest(layout_.checkpoints() / name, kNamesAreSeenWithin);
}

Status RunStorage::read_part(const std::string& name, const Manifest& manifest, int parts, int part,
                             const checkpoint::State& state, const std::function<Status()>& each_block) {
  return checkpoint::read_part(layout_.checkpoints() / name, manifest, parts, part, state,
                               kNamesAreSeenWithin, each_block);
}

}  // namespace rekindle::trainer
