#include "app/places.hpp"

#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& path) {
  std::error_code code;
  return fs::exists(path / "manifest.json", code);
}

fs::path without_slash(const fs::path& path) {
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

Status must_be_run(const run::Layout& layout) {
  std::error_code code;
  if (fs::exists(layout.config(), code) || fs::exists(layout.checkpoints(), code)) return {};
  if (fs::is_regular_file(layout.root(), code))
    return fail(ExitCode::kConfig, str(layout.root().string(), " is a file, not a run directory"),
                "give the --run-dir of a run, or one of its checkpoints/step-...");
  return fail(ExitCode::kConfig, str(layout.root().string(), " is neither a run directory nor a checkpoint"),
              "give the --run-dir of a run, or one of its checkpoints/step-...");
}

Result<fs::path> checkpoint_of(const fs::path& run_dir, std::optional<std::uint64_t> step) {
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(run_dir));
  for (const checkpoint::CheckpointId& id : committed) {
    if (!step || id.step == *step) return checkpoint::directory_of(run_dir, id);
  }
  return fail(ExitCode::kConfig,
              step ? str("there is no checkpoint of step ", *step) : "there is no committed checkpoint",
              str("see rekindle inspect ", run_dir.string()));
}

Result<fs::path> find_checkpoint(const fs::path& path, std::optional<std::uint64_t> step) {
  if (is_checkpoint(path)) return path;
  REKINDLE_CHECK(must_be_run(run::Layout(path)));
  return checkpoint_of(path, step);
}

}  // namespace rekindle::app
