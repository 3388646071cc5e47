#include "app/prepare.hpp"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "app/initial_state.hpp"
#include "app/places.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/signals.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "data/dataset.hpp"
#include "protocol/trainer_environment.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"
#include "run/trust.hpp"

namespace rekindle::app {

using protocol::Job;

namespace {

// Returns the images' channels.
Result<int> complete_from_data(Job& job) {
  REKINDLE_TRY(const auto dataset, data::open_dataset(job.dataset, job.data));
  const data::DatasetInfo& info = dataset->info();
  job.train_samples = info.train_count;
  job.test_samples = info.test_count;
  job.data_hash = info.content_hash;
  if (job.classes == 0) job.classes = static_cast<std::uint64_t>(info.classes);
  if (job.classes < static_cast<std::uint64_t>(info.classes)) {
    return fail(ExitCode::kUsage,
                str("--classes ", job.classes, " is less than the data set's ", info.classes),
                "leave --classes out");
  }
  if (job.epochs > 0) job.steps = protocol::steps_for_epochs(job, job.epochs);
  return info.channels;
}

std::string this_cpu() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return "avx512";
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "avx2" : "default";
}

Status probe(const FilePath& directory) {
  const auto file = directory / str(".probe.", ::getpid());
  const auto written = replace_file(file, "");
  std::ignore = remove_file(file);
  if (!written) return fail(ExitCode::kConfig, written.error().what, "use a --run-dir that can be written");
  return {};
}

Status check_directory(const run::Layout& layout) {
  if (is_file(layout.root())) {
    return fail(ExitCode::kConfig, str("--run-dir ", layout.root().string(), " is a file, not a directory"),
                "give another path, or move the file away");
  }
  if (auto made = make_directories(layout.root(), 0700); !made) {
    return fail(ExitCode::kConfig, made.error().what, "use a --run-dir that can be written");
  }
  REKINDLE_CHECK(run::check_trusted(layout));
  // Root may write anywhere but on a read-only file system: try it.
  REKINDLE_CHECK(probe(layout.root()));
  if (path_exists(layout.checkpoints())) REKINDLE_CHECK(probe(layout.checkpoints()));
  return {};
}

// The processes of a supervisor that was just killed take a moment to notice.
Status check_holder(const run::Layout& layout) {
  for (int tries = 0;; ++tries) {
    REKINDLE_TRY(const auto holder, run::newest_term(layout));
    // Whether one that is out of sight is alive is for the coordinator to find out.
    if (!holder || !run::visible(*holder) || run::provably_gone(*holder)) return {};
    if (tries == 20) return forward_error(run::held_error(layout, *holder));
    ::usleep(100000);
  }
}

// Of the keys of an identity: what a person calls it, in an error.
std::string option_of(std::string key) {
  if (key == "data_hash") return "the content of --data";
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

// One of the differences, in words.
std::string difference(const std::string& key, const nlohmann::json& before, const nlohmann::json& now,
                       const LocalOptions& options) {
  if (key == "init")
    return str("--init ", options.init.string(),
               before.contains(key) ? " gives other values than those that the run began with"
                                    : " is given, and the run began without --init");
  const auto text = [&](const nlohmann::json& j) { return j.contains(key) ? j.at(key).dump() : "not set"; };
  return str(option_of(key), " is ", text(before), " in the run and ", text(now), " in this command");
}

// All that differs, in one error.
Status check_identity(const Job& before, const LocalOptions& options, const run::Layout& layout) {
  nlohmann::json old_identity = protocol::identity_of(before), identity = protocol::identity_of(options.job);
  if (options.change_lr) protocol::take_rates(old_identity, identity);
  for (nlohmann::json* of : {&old_identity, &identity}) {  // what is said of the rates themselves is enough
    of->erase("rates_since");
    of->erase("earlier_rates");
  }
  std::string all;
  bool rates_alone = true, init_alone = true;
  for (std::string key; !(key = protocol::first_difference(old_identity, identity)).empty();) {
    all += (all.empty() ? "" : "; ") + difference(key, old_identity, identity, options);
    rates_alone = rates_alone && key.starts_with("lr");
    init_alone = init_alone && key == "init";
    old_identity.erase(key);
    identity.erase(key);
  }
  if (all.empty()) return {};
  return fail(ExitCode::kConfig,
              str("the run directory ", layout.root().string(), " belongs to another run: ", all),
              rates_alone  ? "use the same options, or --change-lr if that is meant"
              : init_alone ? "give the same --init (and --reset-head) as at its start, or neither"
                           : "use the same options, or another --run-dir");
}

// What the options must agree with; nullopt: without a checkpoint, or given values to start from, there is
// nothing that others could spoil.
Result<std::optional<Job>> earlier_job(const LocalOptions& options, const run::Layout& layout) {
  REKINDLE_TRY(const auto begun, look_at(layout.config()));
  if (!begun) return std::nullopt;
  REKINDLE_TRY(const bool saved, checkpoint::has_saved(layout.root()));
  REKINDLE_TRY(Job before, read_job(layout.config()));
  const bool goes_on_from_init = options.init.empty() && !before.init.empty();
  if (!saved && !goes_on_from_init) return std::nullopt;
  return before;
}

bool same_rates(const Job& a, const protocol::Rates& b) {
  return a.lr == b.lr && a.lr_step == b.lr_step && a.lr_gamma == b.lr_gamma;
}

protocol::Rates rates_of(const Job& job) { return {job.rates_since, job.lr, job.lr_step, job.lr_gamma}; }

// A script repeats the command that began the run: after --change-lr that command goes on with the last
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

// Whether the run has kept what --init names now as it did at its start: that may be gone by now, or changed.
Result<bool> has_initial_state(LocalOptions& options, const run::Layout& layout) {
  if (options.init.empty()) return false;
  // Its hash, for a path may have any bytes.
  const std::string source = str(without_slash(options.init).string(), options.reset_head ? "\n" : "");
  options.job.init_source = hex64(hash64(std::as_bytes(std::span(source))));
  if (!path_exists(layout.config())) return false;
  REKINDLE_TRY(const Job before, read_job(layout.config()));
  if (before.init.empty() || before.init_source != options.job.init_source) return false;
  REKINDLE_TRY(const bool saved, checkpoint::has_saved(layout.root()));
  return saved || !path_exists(options.init);
}

// By the newest checkpoint whose manifest is not damaged.
Result<std::uint64_t> step_reached(const run::Layout& layout) {
  REKINDLE_TRY(const auto committed, checkpoint::find_committed(layout.root()));
  for (const checkpoint::CheckpointId& id : committed) {
    const auto manifest = checkpoint::read_manifest(checkpoint::directory_of(layout.root(), id));
    if (manifest || !checkpoint::is_damage(manifest.error())) return id.step;
  }
  return 0;
}

Status check_resume(const Job& before, LocalOptions& options, const run::Layout& layout) {
  REKINDLE_TRY(const std::uint64_t step, step_reached(layout));
  // What a run was started from is not asked for again.
  if (options.init.empty()) {
    options.job.init = before.init;
    options.job.init_source = before.init_source;
  }
  keep_changed_rates(before, options);
  if (same_rates(options.job, rates_of(before))) {
    options.job.rates_since = before.rates_since;
    options.job.earlier_rates = before.earlier_rates;
  } else {
    options.job.rates_since = step;
    options.job.earlier_rates = protocol::rates_until(protocol::identity_of(before), step);
  }
  REKINDLE_CHECK(check_identity(before, options, layout));
  if (step > options.job.steps) {
    return fail(ExitCode::kConfig,
                str("the run is at step ", step, " already, its end would be step ", options.job.steps),
                str("use --steps ", step, " or more"));
  }
  // A newer CPU does what the first attempt's could; the other way round the trainers' fingerprint tells.
  if (!before.cpu_capability.empty()) options.job.cpu_capability = before.cpu_capability;
  options.job.environment = before.environment;
  return {};
}

// A node that the run was not on may see its newest checkpoint late: it is not to be taken for a run that has
// none. The coordinator waits once more, when nobody can commit another.
void await_newest(const run::Layout& layout) {
  const auto await = [&layout](std::chrono::milliseconds patience) {
    return checkpoint::await_newest(layout.root(), layout.newest_checkpoint(), patience, stop_is_asked);
  };
  const auto id = await(std::chrono::milliseconds(0));
  if (!id) return;
  say(str("waits until the storage shows ", id->directory_name(), ", the newest checkpoint"));
  await(kNamesAreSeenWithin);
}

// What this process inherited and its trainers do not get, or what may change their bits all the same.
void warn_of_environment(const Job& job) {
  for (const std::string& line : protocol::trainer_environment(own_environment(), job).warnings) warn(line);
}

enum class Begins { kNow, kLater, kNever };  // the last only looks

Result<InitialState> prepare_run(LocalOptions& options, Begins begins) {
  const run::Layout layout(options.run_dir);
  REKINDLE_TRY(const int channels, complete_from_data(options.job));
  REKINDLE_CHECK(measure_state(options, channels));
  REKINDLE_TRY(const bool has_its_own, has_initial_state(options, layout));
  if (has_its_own) options.init.clear();
  REKINDLE_TRY(InitialState initial, read_initial_state(options, channels));
  REKINDLE_CHECK(begins == Begins::kNever ? run::check_trusted(layout) : check_directory(layout));
  if (begins == Begins::kNow) REKINDLE_CHECK(check_holder(layout));
  if (begins == Begins::kNow) {
    // One that comes from now on is for this attempt.
    options.old_stop = read_text(layout.stop_request(), run::kMostOfANote).value_or("");
    await_newest(layout);
  }
  options.job.cpu_capability = this_cpu();
  options.job.environment = protocol::numeric_variables(own_environment(), options.job);
  REKINDLE_TRY(const std::optional<Job> before, earlier_job(options, layout));
  if (before)
    REKINDLE_CHECK(check_resume(*before, options, layout));
  else if (!options.init.empty())
    say(str("initial values of --init ", options.init.string(), ": ", initial.chosen.state.size(), " of its ",
            initial.available, " tensors"));
  if (begins == Begins::kNow) {
    if (const std::string line = run::parent_warning(layout); !line.empty()) warn("warning: " + line);
    warn_of_environment(options.job);
  }
  return initial;
}

}  // namespace

Result<InitialState> prepare(LocalOptions& options) { return prepare_run(options, Begins::kNow); }

Status check_for_later(LocalOptions& options, bool looks_only) {
  REKINDLE_TRY(const InitialState initial,
               prepare_run(options, looks_only ? Begins::kNever : Begins::kLater));
  return {};
}

std::string completed_line(const LocalOptions& options) {
  const run::Layout layout(options.run_dir);
  const auto committed = checkpoint::list_committed(layout.root());
  if (committed.empty() || committed.front().step < options.job.steps) return "";
  const std::uint64_t step = committed.front().step;
  if (options.job.test_samples > 0 && !run::recorded(layout).evaluated.contains(step) &&
      step == options.job.steps)
    return "";
  const auto manifest = checkpoint::read_manifest(checkpoint::directory_of(layout.root(), committed.front()));
  if (!manifest ||
      !checkpoint::verify(checkpoint::directory_of(layout.root(), committed.front()), *manifest)) {
    return "";  // damaged: the run sets it aside and computes it again
  }
  return str("the run is complete: ", counted(step, "step"), ", digest ", manifest->digest);
}

}  // namespace rekindle::app
