#include "checkpoint/failure.hpp"

#include "base/text.hpp"

namespace rekindle::checkpoint {

Error damaged_error(const FilePath& path, std::string_view why) {
  return {ExitCode::kGaveUp, str(path.string(), " is damaged: ", why), {}, ErrorKind::kDamage};
}

Error no_manifest_error(const FilePath& checkpoint_dir) {
  return {ExitCode::kGaveUp,
          str(checkpoint_dir.string(), kNotCommitted, ": it has no manifest.json"),
          {},
          ErrorKind::kDamage};
}

Error changed_state_error() {
  return {ExitCode::kGaveUp,
          "the state has changed since it was hashed: a program error or a memory error",
          {},
          ErrorKind::kChangedState};
}

}  // namespace rekindle::checkpoint
