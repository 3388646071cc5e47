#include "app/resume_checks.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/written_since.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "protocol/identity.hpp"
#include "protocol/job_reader.hpp"
#include "run/terms.hpp"

namespace rekindle::app {

using protocol::Job;

namespace {

// The name of an identity key in an error message.
std::string option_of(std::string key) {
  if (key == "data_hash") return "the content of --data";
  if (key == "train_samples") return "the number of training samples";
  if (key == "trainer") return "the kind of trainer";
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

// The files of the data that were written after the run's last start had read them; empty: not known.
std::string new_files(const Job& before, const LocalOptions& options, const run::Layout& layout) {
  const auto started = look_at(layout.config());
  if (!started || !*started || before.task.data != options.job.task.data) return {};
  return written_since(before.task.data, (*started)->st_mtim);
}

// The text for one difference.
std::string difference(const std::string& key, const nlohmann::json& before, const nlohmann::json& now,
                       const LocalOptions& options, const std::string& new_files) {
  if (key == "init")
    return str("--init ", options.init.string(),
               before.contains(key) ? " gives other values than those that the run began with"
                                    : " is given, and the run began without --init");
  if (key == "data_hash" && before.value(key, "") == options.earlier_data && !options.data_change.empty())
    return str("the content of --data has changed since the run began: ", options.data_change);
  if (key == "data_hash" && !new_files.empty())
    return str("the content of --data has changed since the run began: ", new_files,
               " (written since its last start)");
  const auto text = [&](const nlohmann::json& j) -> std::string {
    if (!j.contains(key)) return "not set";
    const nlohmann::json& value = j.at(key);
    return key == "dropout" && value.is_number() && value < 0 ? "the model's own" : value.dump();
  };
  return str(option_of(key), " is ", text(before), " in the run and ", text(now), " in this command");
}

// Reports all differences in one error.
Status check_same_options(const Job& before, const LocalOptions& options, const run::Layout& layout) {
  nlohmann::json old_identity = protocol::identity_of(before), identity = protocol::identity_of(options.job);
  if (options.change_lr) protocol::take_rates(old_identity, identity);
  task::take_additions(old_identity, identity);
  for (nlohmann::json* of : {&old_identity, &identity}) {  // not reported separately
    of->erase("rates_since");
    of->erase("earlier_rates");
  }
  std::string all;
  bool rates_alone = true, init_alone = true;
  for (std::string key; !(key = protocol::first_difference(old_identity, identity)).empty();) {
    all +=
        (all.empty() ? "" : "; ") + difference(key, old_identity, identity, options,
                                               key == "data_hash" ? new_files(before, options, layout) : "");
    rates_alone = rates_alone && key.starts_with("lr");
    init_alone = init_alone && key == "init";
    old_identity.erase(key);
    identity.erase(key);
  }
  if (all.empty()) return {};
  return fail(
      ExitCode::kConfig, str("the run directory ", layout.root().string(), " belongs to another run: ", all),
      rates_alone  ? is_script(options.job)
                         ? "use the same options, or --change-lr (in run(): change_lr=True) if that is meant"
                         : "use the same options, or --change-lr if that is meant"
      : init_alone ? "give the same --init (and --reset-head) as at its start, or neither"
                   : "use the same options, or another --run-dir");
}

bool same_rates(const Job& a, const protocol::Rates& b) {
  return a.lr == b.lr && a.lr_step == b.lr_step && a.lr_gamma == b.lr_gamma;
}

protocol::Rates rates_of(const Job& job) { return {job.rates_since, job.lr, job.lr_step, job.lr_gamma}; }

// A script may repeat the run's first command. After --change-lr, that command continues with the changed
// rates.
void keep_changed_rates(const Job& before, LocalOptions& options) {
  Job& job = options.job;
  const bool changed_once = !before.earlier_rates.empty();
  if (options.change_lr || !changed_once || same_rates(job, rates_of(before)) ||
      !same_rates(job, before.earlier_rates.front()))
    return;
  job.lr = before.lr;
  job.lr_step = before.lr_step;
  job.lr_gamma = before.lr_gamma;
  say(str("goes on with --lr ", job.lr, ", as the last --change-lr has set",
          job.lr_step == before.earlier_rates.front().lr_step &&
                  job.lr_gamma == before.earlier_rates.front().lr_gamma
              ? ""
              : str(" (--lr-step ", job.lr_step, ", --lr-gamma ", job.lr_gamma, ")")));
}

// The step of the newest checkpoint with an undamaged manifest.
Result<std::uint64_t> step_reached(const run::Layout& layout) {
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  for (const checkpoint::CheckpointId& id : committed) {
    const auto manifest = checkpoint::read_manifest(checkpoint::directory_of(layout.root(), id));
    if (manifest || manifest.error().kind != ErrorKind::kDamage) return id.step;
  }
  return 0;
}

// Whether somebody has moved the checkpoints after `step` away, and the file `newest` with them. Otherwise
// they are damaged, or storage does not show them yet.
Result<bool> has_gone_back(const run::Layout& layout, std::uint64_t step) {
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  REKINDLE_TRY(const bool set_aside, checkpoint::has_set_aside(layout.root(), step));
  const auto noted = checkpoint::noted_newest(layout.newest_checkpoint());
  const bool later = (!committed.empty() && committed.front().step > step) || (noted && noted->step > step);
  return !later && !set_aside;
}

// Steps before the last --change-lr are made again with the rates of their time. But who goes back and gives
// the new rate again wants it from there on.
Status take_rates_of(const Job& before, LocalOptions& options, const run::Layout& layout,
                     std::uint64_t step) {
  Job& job = options.job;
  bool anew = !same_rates(job, rates_of(before));
  if (!anew && options.change_lr && step < before.rates_since) {
    REKINDLE_TRY(anew, has_gone_back(layout, step));
    const std::string given = str("--lr ", job.lr, " of --change-lr holds from step ");
    if (anew)
      warn(str(given, step, " on, and no longer from step ", before.rates_since));
    else
      warn(str("warning: ", given, before.rates_since, " on: steps ", step + 1, " to ", before.rates_since,
               " are made again with the rate that they had"));
  }
  job.rates_since = anew ? step : before.rates_since;
  job.earlier_rates =
      anew ? protocol::rates_until(protocol::identity_of(before), step) : before.earlier_rates;
  return {};
}

// For a run whose run.toml is lost. nullopt also if no attempt was made in the directory: that of an audit
// begins with a checkpoint of the run, and with the options that its steps had.
Result<std::optional<Job>> job_of_newest_checkpoint(const LocalOptions& options, const run::Layout& layout) {
  REKINDLE_TRY(const auto holder, run::newest_term(layout));
  if (!holder) return std::nullopt;
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  for (const checkpoint::CheckpointId& id : committed) {
    const auto manifest = checkpoint::read_manifest(checkpoint::directory_of(layout.root(), id));
    if (!manifest && manifest.error().kind == ErrorKind::kDamage) continue;
    if (!manifest) return forward_error(manifest.error());
    REKINDLE_TRY(const nlohmann::json identity,
                 protocol::identity_from_text(manifest->identity,
                                              str("the identity of checkpoint ", id.directory_name())));
    return protocol::job_with_identity(identity, options.job);
  }
  return std::nullopt;
}

}  // namespace

Result<std::optional<Job>> earlier_job(const LocalOptions& options, const run::Layout& layout) {
  REKINDLE_TRY(const auto begun, look_strictly_at(layout.config()));
  if (!begun) return job_of_newest_checkpoint(options, layout);
  REKINDLE_TRY(const bool saved, checkpoint::has_saved(layout.root()));
  REKINDLE_TRY(Job before, read_job(layout.config()));
  const bool goes_on_from_init = options.init.empty() && !before.init.empty();
  if (!saved && !goes_on_from_init) return std::nullopt;
  return before;
}

Status check_resume(const Job& before, LocalOptions& options, const run::Layout& layout) {
  REKINDLE_TRY(const std::uint64_t step, step_reached(layout));
  // A resume need not repeat --init.
  if (options.init.empty()) {
    options.job.init = before.init;
    options.job.init_source = before.init_source;
  }
  options.job.task.skip_corrupt = options.job.task.skip_corrupt || before.task.skip_corrupt;
  keep_changed_rates(before, options);
  REKINDLE_CHECK(take_rates_of(before, options, layout, step));
  REKINDLE_CHECK(check_same_options(before, options, layout));
  if (step > options.job.steps) {
    return fail(ExitCode::kConfig,
                str("the run is at step ", step, " already, its end would be step ", options.job.steps),
                options.job.epochs > 0 ? "use more --epochs" : str("use --steps ", step, " or more"));
  }
  // A newer CPU has the first attempt's instruction set. On an older one no trainer is started
  // (app/control_main.cpp).
  if (!before.cpu_capability.empty()) options.job.cpu_capability = before.cpu_capability;
  options.job.bf16_isa = before.bf16_isa;
  options.job.environment = before.environment;
  if (!path_exists(layout.config()))
    warn(str("warning: ", layout.config().string(),
             " is missing: the run goes on with what its newest checkpoint says. If its first attempt had "
             "another kind of CPU, or other variables of numeric libraries, the bits differ from here on"));
  return {};
}

}  // namespace rekindle::app
