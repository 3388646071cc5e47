#include "app/completed.hpp"

#include <algorithm>
#include <filesystem>

#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/script.hpp"
#include "app/script_copy.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/status_file.hpp"
#include "run/terms.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

Status check_model(const LocalOptions& options, const checkpoint::Manifest& manifest) {
  if (options.script_model.empty()) return {};
  const checkpoint::StateSpec made = model_of(manifest.contents.tensors),
                              now = model_of(options.script_model);
  const auto [there, here] = std::ranges::mismatch(made, now);
  if (there == made.end() && here == now.end()) return {};
  return fail(ExitCode::kConfig,
              str(options.run_dir.string(), " holds a complete run of another model: its tensor ",
                  there == made.end() ? here->name : there->name, " is not the same in this script"),
              "a new run is one in another --run-dir");
}

// What is not as it was when the run was trained: arguments, or the script. "": nothing is known to differ.
std::string change_of_script(const LocalOptions& options, const run::Layout& layout) {
  const task::Options& now = options.job.task;
  const auto job = read_job(layout.config());
  if (!is_script(options.job) || !job || !is_script(*job)) return "";
  const task::Options& before = job->task;
  if (before.script_arguments != now.script_arguments) {
    std::string arguments;
    for (const std::string& argument : before.script_arguments) arguments += " " + argument;
    return str("it was trained with ", arguments.empty() ? "no" : "the", " arguments of the script",
               arguments);
  }
  const fs::path copy = copy_of_script(*job, layout).path();
  if (!is_file(copy) || same_text(copy, now.script)) return "";
  return fs::path(now.script).filename() == copy.filename()
             ? str(now.script, " has changed since then")
             : str("it was trained with another script, ", copy.filename().string());
}

// Its newest checkpoint, if nothing is left to train.
std::optional<checkpoint::Manifest> complete(const LocalOptions& options, const run::Layout& layout) {
  const auto committed = checkpoint::list_committed(layout.root());
  if (committed.empty() || committed.front().step < options.job.steps) return std::nullopt;
  const std::uint64_t step = committed.front().step;
  if (options.job.test_samples > 0 && !run::recorded(layout).evaluated.contains(step) &&
      step == options.job.steps)
    return std::nullopt;
  const FilePath directory = checkpoint::directory_of(layout.root(), committed.front());
  auto manifest = checkpoint::read_manifest(directory);
  if (!manifest || !checkpoint::verify(directory, *manifest))
    return std::nullopt;  // damaged: the run sets it aside and computes it again
  return std::move(*manifest);
}

std::string line_about(const checkpoint::Manifest& manifest) {
  return str("the run is complete: ", counted(manifest.id.step, "step"), ", digest ", manifest.digest);
}

// A run that was stopped at this step is complete because it is to have no more steps now, and no coordinator
// begins that would say so. What cannot be written is no reason to fail.
void show_as_finished(const run::Layout& layout, std::uint64_t steps, const std::string& line) {
  auto status = run::read_status(layout);
  const auto holder = run::newest_term(layout);
  if (!status || !holder || !*holder || !run::looks_gone(**holder)) return;
  if (status->value("state", "") == "finished" && status->value("steps", std::uint64_t{0}) == steps) return;
  if (status->empty()) *status = {{"term", (*holder)->term}, {"attempt", run::newest_attempt(layout)}};
  status->update(
      {{"state", "finished"}, {"step", steps}, {"steps", steps}, {"end", line}, {"updated", utc_now()}});
  std::ignore = replace_file_quickly(layout.status(), status->dump(2) + "\n");
}

}  // namespace

std::string completed_line(const LocalOptions& options) {
  const auto manifest = complete(options, options.layout());
  return manifest ? line_about(*manifest) : "";
}

std::optional<int> end_if_complete(const LocalOptions& options) {
  const run::Layout layout = options.layout();
  const auto manifest = complete(options, layout);
  if (!manifest) return std::nullopt;
  if (const Status same = check_model(options, *manifest); !same) return report(same.error());
  if (const std::string change = change_of_script(options, layout); !change.empty()) {
    const char* const hint = "a new run needs another run_dir (--run-dir)";
    const std::string what = str(options.run_dir.string(), " holds a complete run: ", change);
    if (options.job.strict) return report(Error{ExitCode::kConfig, what, hint});
    warn(str("warning: ", what, ", and nothing was trained now: ", hint));
  }
  if (!options.dry_run) show_as_finished(layout, manifest->id.step, line_about(*manifest));
  say(line_about(*manifest));
  return 0;
}

}  // namespace rekindle::app
