#include "app/places.hpp"

#include "app/run_config.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/listing.hpp"
#include "protocol/job_reader.hpp"
#include "run/records.hpp"
#include "view/runs.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

bool is_checkpoint(const FilePath& path) { return path_exists(path / "manifest.json"); }

fs::path without_slash(const fs::path& path) {
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

fs::path existing_part(fs::path path) {
  while (path.has_relative_path() && !path_exists(FilePath(path))) path = path.parent_path();
  return path;
}

std::vector<fs::path> runs_inside(const run::Layout& layout) {
  constexpr int kDeep = 2;
  std::vector<fs::path> runs = view::find_runs(layout.root().path(), kDeep);
  std::erase(runs, layout.root().path());
  return runs;
}

Status must_be_run(const run::Layout& layout) {
  // An error gives the reason, for example that the directory belongs to another user.
  REKINDLE_TRY(const auto config, look_at(layout.config()));
  REKINDLE_TRY(const auto checkpoints, look_at(layout.checkpoints()));
  if (config || checkpoints) return {};
  if (is_file(layout.root()))
    return fail(ExitCode::kConfig, str(layout.root().string(), " is a file, not a run directory"),
                "give the --run-dir of a run, or one of its checkpoints/step-...");
  if (const auto runs = runs_inside(layout); !runs.empty())
    return fail(ExitCode::kConfig,
                str(layout.root().string(), " is not a run directory, but has runs inside"),
                str("give one of them, such as ", runs.front().string(), "; rekindle list ",
                    layout.root().string(), " shows all"));
  return fail(ExitCode::kConfig, str(layout.root().string(), " is neither a run directory nor a checkpoint"),
              "give the --run-dir of a run, or one of its checkpoints/step-...");
}

Result<FilePath> checkpoint_of(const FilePath& run_dir, std::optional<std::uint64_t> step) {
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(run_dir));
  for (const checkpoint::CheckpointId& id : committed) {
    if (!step || id.step == *step) return checkpoint::directory_of(run_dir, id);
  }
  return fail(ExitCode::kConfig,
              step ? str("there is no checkpoint of step ", *step) : "there is no committed checkpoint",
              str("see rekindle inspect ", run_dir.string()));
}

namespace {

Status check_step(const FilePath& checkpoint, std::uint64_t step) {
  REKINDLE_TRY(const checkpoint::Manifest manifest, checkpoint::read_manifest(checkpoint));
  if (manifest.id.step == step) return {};
  return fail(ExitCode::kUsage, str("--step ", step, " with the checkpoint of step ", manifest.id.step),
              "leave --step out, or give the run directory");
}

}  // namespace

Result<FilePath> find_checkpoint(const fs::path& path, std::optional<std::uint64_t> step) {
  const run::Layout layout(path, Trust::kForeign);
  if (is_checkpoint(layout.root())) {
    if (step) REKINDLE_CHECK(check_step(layout.root(), *step));
    return layout.root();
  }
  REKINDLE_CHECK(must_be_run(layout));
  return checkpoint_of(layout.root(), step);
}

Result<std::optional<std::uint64_t>> chosen_step(const fs::path& path, std::optional<std::uint64_t> step,
                                                 bool best) {
  if (!best) return step;
  const run::Layout layout(path, Trust::kForeign);
  if (is_checkpoint(layout.root()))
    return fail(ExitCode::kUsage, "--best with one checkpoint",
                "leave --best out, or give the run directory");
  REKINDLE_CHECK(must_be_run(layout));
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  REKINDLE_TRY(const protocol::Job job, read_job(layout.config()));
  REKINDLE_TRY(const auto found,
               run::best_evaluated(layout, checkpoint::steps_of(committed), run::best_by(job.best_metric)));
  if (found) return found;
  return fail(ExitCode::kConfig, "no checkpoint that is left was evaluated",
              "--keep-best makes one at each evaluation, and keeps the best");
}

std::string hint_for_damage(const fs::path& path) {
  if (is_checkpoint(path)) return {};
  return str("another one may be whole, and its path may be given: see rekindle inspect ",
             without_slash(path).string());
}

fs::path run_of(const fs::path& path) {
  const fs::path whole = without_slash(path);
  for (const fs::path& each : {whole, whole.parent_path().parent_path()}) {
    if (!is_folder(each)) continue;
    const auto config = look_at(run::Layout(each, Trust::kForeign).config());
    if (config && *config) return each;
  }
  return {};
}

std::uint64_t saved_step(const run::Layout& layout) {
  const auto committed = checkpoint::list_committed(layout.root());
  return committed.empty() ? 0 : committed.front().step;
}

Result<std::vector<checkpoint::OtherName>> other_names_in(const checkpoint::Manifest& manifest) {
  REKINDLE_TRY(const protocol::Job job,
               protocol::job_from_text(manifest.identity, "the identity in the manifest"));
  return checkpoint::other_names(job.task.script_tied);
}

}  // namespace rekindle::app
