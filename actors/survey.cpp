#include "actors/survey.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "protocol/identity.hpp"
#include "protocol/job_reader.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

Status check_of_this_run(const Job& job, const checkpoint::Manifest& manifest) {
  const std::string source = str("the identity of checkpoint ", manifest.id.directory_name());
  REKINDLE_TRY(nlohmann::json theirs, identity_from_text(manifest.identity, source));
  const std::string key = difference_until(manifest.id.step, std::move(theirs), identity_of(job));
  if (key.empty()) return {};
  return fail(
      ExitCode::kConfig,
      str("checkpoint ", manifest.id.directory_name(), " belongs to another run: its ", key, " differs"),
      "use the same options, or another --run-dir");
}

}  // namespace

Result<CoordinatorConfig> survey(const run::Layout& layout, const Job& job, std::uint64_t term,
                                 run::Recorded* of_metrics, const std::function<bool()>& give_up) {
  CoordinatorConfig config;
  config.job = job;
  config.term = term;
  config.gather_time = Time(static_cast<std::int64_t>(job.gather_time_ms));
  config.lost_after = Time(static_cast<std::int64_t>(job.lost_after_ms));
  config.hang_after = Time(static_cast<std::int64_t>(job.hang_after_ms));
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  for (const checkpoint::CheckpointId& id : committed) {
    if (id.step > job.steps) continue;  // --steps was lowered below it
    Restorable restorable{id.directory_name(), id.step, ""};
    // A manifest that cannot be read is found out by the trainers that try it; one of another format version
    // is an error, for nothing is wrong with that checkpoint.
    const auto manifest = checkpoint::read_manifest(checkpoint::directory_of(layout.root(), id));
    if (!manifest && manifest.error().code == ExitCode::kConfig) return forward_error(manifest.error());
    if (manifest) {
      restorable.fingerprint = manifest->fingerprint;
      if (config.restorable.empty())
        config.unsaved = age_of(manifest->created).value_or(std::chrono::seconds(0));
      REKINDLE_CHECK(check_of_this_run(job, *manifest));
    }
    config.restorable.push_back(std::move(restorable));
  }
  run::Recorded recorded = run::recorded(layout, give_up);
  config.evaluated = recorded.evaluated;
  config.recorded_step = recorded.step;
  if (of_metrics != nullptr) *of_metrics = std::move(recorded);
  return config;
}

}  // namespace rekindle::actors
