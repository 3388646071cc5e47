#include "app/prepare.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "app/cpu.hpp"
#include "app/describe.hpp"
#include "app/initial_state.hpp"
#include "app/places.hpp"
#include "app/report.hpp"
#include "app/resume_checks.hpp"
#include "app/run_config.hpp"
#include "app/script.hpp"
#include "app/signals.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/state_check.hpp"
#include "data/dataset.hpp"
#include "optim/schedule.hpp"
#include "protocol/trainer_environment.hpp"
#include "protocol/training.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"
#include "run/trust.hpp"

namespace rekindle::app {

using protocol::Job;

namespace {

Status complete_from_data(LocalOptions& options, const data::DatasetInfo& info) {
  Job& job = options.job;
  options.earlier_data = info.earlier_hash;
  options.data_change = info.change;
  if (!info.warning.empty()) warn("warning: " + info.warning);
  job.train_samples = info.train_count;
  job.test_samples = info.test_count;
  job.task.data_hash = info.content_hash;
  if (job.task.classes == 0) job.task.classes = static_cast<std::uint64_t>(info.classes);
  task::choose_image_size(job.task, info.image_size);
  if (job.task.classes < static_cast<std::uint64_t>(info.classes)) {
    return fail(ExitCode::kUsage,
                str("--classes ", job.task.classes, " is less than the data set's ", info.classes),
                "leave --classes out");
  }
  const bool text = info.samples == data::SampleKind::kText;
  const std::string best = run::best_by(job.best_metric).name;
  if ((best == "top5" && (text || job.task.classes <= 5)) || (best == "accuracy" && job.task.classes < 2))
    return fail(ExitCode::kUsage, str("--best-metric ", best, ": there is none"), "leave it out");
  if (info.train_count == 0)
    return fail(ExitCode::kConfig, str("the data in ", job.task.data, " have no training samples"),
                "give another --data");
  if (job.epochs > 0) job.steps = protocol::steps_for_epochs(job, job.epochs);
  return {};
}

Result<checkpoint::StateSpec> state_of(Job& job, Description description) {
  REKINDLE_CHECK(checkpoint::check_spec(description.state));
  job.task.script_tied = std::move(description.tied);
  return std::move(description.state);
}

// Completes the job from its data set, and returns the tensors of the state. Only the trainer program can
// open a data set that is not built in.
Result<checkpoint::StateSpec> complete_and_describe(LocalOptions& options) {
  Job& job = options.job;
  if (is_script(job)) {
    if (job.epochs > 0) job.steps = protocol::steps_for_epochs(job, job.epochs);
    return state_of_script(job, options.script_model);
  }
  if (!data::find_dataset(job.task.dataset)) {
    REKINDLE_TRY(Description description, describe_with_data(job, options.own_trainer));
    REKINDLE_CHECK(complete_from_data(options, description.data));
    return state_of(job, std::move(description));
  }
  REKINDLE_TRY(const auto dataset, data::open_dataset(job.task.dataset, job.task.data,
                                                      {.context = static_cast<int>(job.task.context),
                                                       .skip_corrupt = job.task.skip_corrupt}));
  REKINDLE_CHECK(complete_from_data(options, dataset->info()));
  REKINDLE_TRY(Description description, describe_model(job, dataset->info().channels, options.own_trainer));
  return state_of(job, std::move(description));
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
  const bool is_new = !path_exists(layout.root());
  if (auto made = make_directories(layout.root(), 0700); !made) {
    return fail(ExitCode::kConfig, made.error().what, "use a --run-dir that can be written");
  }
  if (is_new) {
    REKINDLE_TRY(const auto info, look_at(layout.root()));
    if (info) REKINDLE_CHECK(check_own(*info, layout.root()));
  }
  REKINDLE_CHECK(run::check_trusted(layout));
  // Permission bits do not restrict root, so try to write.
  REKINDLE_CHECK(probe(layout.root()));
  if (path_exists(layout.checkpoints())) REKINDLE_CHECK(probe(layout.checkpoints()));
  return {};
}

// After a supervisor is killed, its processes need a moment to exit, so the check is repeated for 2 s.
Status check_holder(const run::Layout& layout) {
  for (int tries = 0;; ++tries) {
    REKINDLE_TRY(const auto holder, run::newest_term(layout));
    // The coordinator checks holders whose process is not visible here, or may hang without a supervisor.
    if (!holder || !run::visible(*holder) || run::looks_gone(*holder) || run::supervisor_gone(*holder))
      return {};
    if (tries == 20) return forward_error(run::held_error(layout, *holder));
    ::usleep(100000);
  }
}

// Whether the run has already taken its initial values from the same --init path, which may be gone or
// changed by now.
Result<bool> has_initial_state(LocalOptions& options, const run::Layout& layout) {
  if (options.init.empty()) return false;
  // The path's hash, because a path may contain any bytes.
  const std::string source = str(without_slash(options.init).string(), options.reset_head ? "\n" : "");
  options.job.init_source = hex64(hash64(std::as_bytes(std::span(source))));
  if (!path_exists(layout.config())) return false;
  REKINDLE_TRY(const Job before, read_job(layout.config()));
  if (before.init.empty() || before.init_source != options.job.init_source) return false;
  REKINDLE_TRY(const bool saved, checkpoint::has_saved(layout.root()));
  return saved || !path_exists(options.init);
}

// A node that did not take part in the run may see the newest checkpoint late, and must not treat the run as
// one without checkpoints. The coordinator waits again later, when no other process can commit.
void announce_wait_for_newest(const run::Layout& layout) {
  const auto await = [&layout](std::chrono::milliseconds patience) {
    return checkpoint::await_newest(layout.root(), layout.newest_checkpoint(), patience, stop_is_asked);
  };
  const auto id = await(std::chrono::milliseconds(0));
  if (!id) return;
  say(str("waits until the storage shows ", id->directory_name(), ", the newest checkpoint"));
  await(kNamesAreSeenWithin);
}

// Warns of inherited variables that the trainers do not get, or that may change the trainers' bits.
void warn_of_environment(const Job& job) {
  for (const std::string& line : protocol::trainer_environment(own_environment(), job).warnings) warn(line);
}

void warn_of_bf16(const Job& job) {
  if (job.precision != "bf16" || job.device != "cpu") return;
  if (job.bf16_isa.empty())
    warn(
        "warning: the CPU of the first attempt has no instructions for bfloat16: --precision fp32 is faster");
  else if (!has_bf16_isa(bf16_isa(), job.bf16_isa))
    warn(str("warning: this CPU has no ", job.bf16_isa,
             ", which the CPU of the first attempt has: from here on "
             "the bits differ"));
}

// A run that is made longer keeps the schedule that its first steps had.
void warn_of_schedule(const Job& job) {
  const bool ends = optim::ends_with_the_run(job.schedule);
  if (ends && job.steps > job.schedule_steps)
    warn(str(
        "warning: the ", job.schedule, " schedule ends at step ", job.schedule_steps,
        ", where this run ended at first, and the later steps keep its last rate, nearly 0: another run with "
        "--init has a schedule of its own"));
}

void warn_of_options_without_use(const Job& job) {
  const auto warn_of = [&job](const char* option, bool given) {
    if (given && !optim::schedule_has(job.schedule, option))
      warn(str("warning: ", option, " has no effect with --schedule ", job.schedule));
  };
  warn_of("--lr-step", job.lr_step != Job{}.lr_step);
  warn_of("--lr-gamma", job.lr_gamma != Job{}.lr_gamma);
  for (const auto& [option, given] :
       {std::pair("--keep-best", job.keep_best), std::pair("--evaluate-every", job.evaluate_every > 0)}) {
    if (given && job.test_samples == 0) warn(str("warning: ", option, " has no effect without test samples"));
  }
}

// The statistics of a few samples are so uncertain that batch norm hurts. Each micro-batch has its own.
void warn_of_batch_norm(const Job& job, const checkpoint::StateSpec& model) {
  constexpr std::uint64_t kFew = 8;
  const std::uint64_t samples = job.batch_size / job.micro_batches;
  const bool has_statistics = std::ranges::any_of(
      model, [](const checkpoint::TensorSpec& tensor) { return tensor.name.ends_with(".running_var"); });
  if (has_statistics && samples < kFew)
    warn(str("warning: batch norm sees only ", counted(samples, "sample"),
             " in each micro-batch: use fewer --micro-batches, or a larger --batch-size"));
}

// The layer that --reset-head leaves out, for the line about initial values.
std::string without_head(const LocalOptions& options, const checkpoint::State& chosen,
                         const checkpoint::StateSpec& model) {
  if (!options.reset_head) return "";
  std::string names;
  for (const checkpoint::TensorSpec& tensor : model) {
    const bool given = std::ranges::any_of(
        chosen, [&](const checkpoint::Tensor& from) { return from.spec.name == tensor.name; });
    if (tensor.role == checkpoint::Role::kParameter && !given)
      names += (names.empty() ? "" : ", ") + tensor.name;
  }
  return names.empty() ? "" : str("; new values for ", names);
}

// Gives a schedule without a length that of the run.
Status check_schedule(Job& job) {
  if (job.schedule_steps == 0) job.schedule_steps = job.steps;
  REKINDLE_TRY(const optim::Schedule schedule, protocol::schedule_of(job));
  return optim::check_schedule(schedule);
}

enum class Begins { kNow, kLater, kNever };  // kNever: read-only check

Result<InitialState> prepare_run(LocalOptions& options, Begins begins) {
  run::Layout layout = options.layout();
  // A resume need not repeat --skip-corrupt, without which the data may not open.
  const auto earlier = earlier_job(options, layout);
  const bool begun = earlier && *earlier;
  if (begun && (*earlier)->task.skip_corrupt) options.job.task.skip_corrupt = true;
  const auto began = std::chrono::steady_clock::now();
  REKINDLE_TRY(const checkpoint::StateSpec model, complete_and_describe(options));
  allow_time_to_start(options, std::chrono::steady_clock::now() - began);
  measure_state(options, model);
  REKINDLE_TRY(const bool has_its_own, has_initial_state(options, layout));
  if (has_its_own) options.init.clear();
  REKINDLE_TRY(InitialState initial, read_initial_state(options, model));
  if (!begun && !path_exists(layout.config()))
    REKINDLE_CHECK(check_schedule(options.job));  // before anything is written
  REKINDLE_CHECK(begins == Begins::kNever ? run::check_trusted(layout) : check_directory(layout));
  if (begins == Begins::kNow) {
    REKINDLE_TRY(options.run_dir_inode, run::inode_of(layout));
    layout = options.layout();
    REKINDLE_CHECK(check_holder(layout));
  }
  if (begins == Begins::kNow) announce_wait_for_newest(layout);
  options.job.cpu_capability = cpu_capability();
  if (options.job.precision == "bf16") options.job.bf16_isa = bf16_isa();
  options.job.environment = protocol::numeric_variables(own_environment(), options.job);
  REKINDLE_TRY(const std::optional<Job> before, earlier_job(options, layout));
  if (before && options.job.schedule_steps == 0) options.job.schedule_steps = before->schedule_steps;
  REKINDLE_CHECK(check_schedule(options.job));
  if (before)
    REKINDLE_CHECK(check_resume(*before, options, layout));
  else if (!options.init.empty())
    say(str("initial values of --init ", options.init.string(), ": ", initial.chosen.state.size(), " of its ",
            initial.available, " tensors", without_head(options, initial.chosen.state, model)));
  if (begins == Begins::kNow) {
    if (const std::string line = run::exchange_warning(layout); !line.empty()) warn("warning: " + line);
    warn_of_environment(options.job);
    warn_of_bf16(options.job);
    warn_of_batch_norm(options.job, model);
    warn_of_schedule(options.job);
    warn_of_options_without_use(options.job);
  }
  return initial;
}

}  // namespace

std::string stop_request_in(const std::filesystem::path& run_dir) {
  if (run_dir.empty()) return "";
  return read_text(run::Layout(run_dir).stop_request(), run::kMostOfANote).value_or("");
}

Result<InitialState> prepare(LocalOptions& options) { return prepare_run(options, Begins::kNow); }

Status check_for_later(LocalOptions& options, bool looks_only) {
  REKINDLE_TRY(const InitialState initial,
               prepare_run(options, looks_only ? Begins::kNever : Begins::kLater));
  return {};
}

Status check_not_held(const LocalOptions& options) { return check_holder(options.layout()); }

}  // namespace rekindle::app
