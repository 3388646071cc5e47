#include "checkpoint/failure.hpp"

#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {
namespace {

constexpr std::string_view kDamaged = " is damaged: ";
constexpr std::string_view kNoManifest = ": it has no manifest.json";
constexpr std::string_view kChanged = "the state has changed since it was hashed";

bool says(const Error& error, std::string_view text) { return error.what.find(text) != std::string::npos; }

}  // namespace

Error damaged_error(const FilePath& path, std::string_view why) {
  return {ExitCode::kGaveUp, str(path.string(), kDamaged, why), {}};
}

Error no_manifest_error(const FilePath& checkpoint_dir) {
  return {ExitCode::kGaveUp, str(checkpoint_dir.string(), kNotCommitted, kNoManifest), {}};
}

Error changed_state_error() {
  return {ExitCode::kGaveUp, str(kChanged, ": a program's or the memory's fault"), {}};
}

bool is_damage(const Error& error) {
  return !error.by_system && error.code == ExitCode::kGaveUp &&
         (says(error, kDamaged) || error.what.ends_with(kNoManifest));
}

bool is_changed_state(const Error& error) { return error.what.starts_with(kChanged); }

}  // namespace rekindle::checkpoint
