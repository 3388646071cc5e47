#include "trainer/trainer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "protocol/fingerprint.hpp"
#include "trainer/numeric_check.hpp"
#include "trainer/plan.hpp"
#include "trainer/replica_state.hpp"

namespace rekindle::trainer {

using namespace protocol;

Status Trainer::warm_up(TrainerReady ready, const std::string& build) {
  nlohmann::json fingerprint = nlohmann::json::parse(parts_.task.fingerprint());
  fingerprint["build"] = build;
  // Without the GPU, which differs between trainers.
  if (const std::string nccl = parts_.hub.endpoint().nccl; !nccl.empty())
    fingerprint["nccl"] = nccl.substr(0, nccl.find(' '));
  ready.machine = parts_.task.describe_machine();
  const auto started = parts_.clock.now();
  REKINDLE_TRY(const NumericCheck check, checked_numerics(ready.host));
  fingerprint[kFirstGradient] = check.hash;
  fingerprint[kInitialValues] = check.values;
  ready.check_ms = parts_.clock.ms_since(started);
  ready.fingerprint = fingerprint.dump();
  // An error at this point ends a run that has not begun. If there is a checkpoint, the file may never be
  // needed.
  if (!parts_.storage.has_checkpoint()) REKINDLE_CHECK(load_initial());
  parts_.link.set_phase(TrainerPhase::kIdle, 0);
  parts_.link.send(ready);
  return {};
}

// In a run that begins, the last part of an evaluation, which may be smaller than the others. What a script
// evaluates was tried when it was described.
TestSamples Trainer::tests_to_try() const {
  const std::uint64_t tests = parts_.job.test_samples,
                      each = parts_.job.batch_size / parts_.job.micro_batches;
  if (tests == 0 || is_script(parts_.job) || parts_.storage.has_checkpoint()) return {};
  const std::uint64_t first = (tests - 1) / each * each;
  return {first, tests - first};
}

// A run that has a checkpoint waits for the samples, but not longer than others wait for this trainer. In a
// run that begins, a file that is missing is told at once.
Result<NumericCheck> Trainer::numeric_check(std::span<float> gradient) {
  const std::uint64_t most_ms = std::min(parts_.job.data_wait_ms, parts_.job.gather_time_ms / 2);
  const auto until = parts_.clock.now() + std::chrono::milliseconds(most_ms);
  bool said = false;
  for (;;) {
    auto check = check_numerics(parts_.task, gradient, parts_.link.aborted(), tests_to_try());
    const bool again = !check && check.error().kind == ErrorKind::kSystem && !parts_.link.aborted() &&
                       parts_.storage.has_checkpoint() && parts_.clock.now() < until;
    if (!again) return check;
    if (!std::exchange(said, true))
      log_warning(str(check.error().what, ": this trainer tries again for ", most_ms / 1000, " s"));
    parts_.clock.sleep(kSampleLook);
  }
}

// An exception of a C++ model, on a CPU, in a run that begins: another try, or another machine, has it too.
Error Trainer::of_the_model(Error error) const {
  const bool other_reason =
      error.code != ExitCode::kGaveUp || error.kind != ErrorKind::kOther || !error.hint.empty();
  if (other_reason || is_script(parts_.job) || parts_.task.place() || parts_.storage.has_checkpoint())
    return error;
  error.code = ExitCode::kConfig;
  error.hint = "look at the model";
  return error;
}

// The initial values, and the gradient and loss of micro-batch 0 of step 0. The seed draws the state even
// with --init, because the file may be gone when the run continues from a checkpoint. No generation has
// begun, so slot 0 is free.
Result<NumericCheck> Trainer::checked_numerics(const std::string& host) {
  REKINDLE_TRY(const std::span<float> gradient, parts_.hub.slot(0));
  auto made = numeric_check(gradient);
  if (!made) return forward_error(of_the_model(std::move(made.error())));
  const NumericCheck& check = *made;
  if (!check.changed.empty())
    return fail(ExitCode::kConfig,
                str("the model changes its parameter ", check.changed, " while it computes a gradient"),
                "only the optimizer may change parameters; what a forward pass changes has to be a buffer");
  if (check.mismatch.empty()) return check;
  const char* const hint =
      is_script(parts_.job)
          ? "look in the script for random numbers without a seed "
            "(numpy.random.default_rng(), os.urandom()), "
            "sets, clocks and counters, for generators that the data set keeps (seed these in "
            "__getitem__ from torch.initial_seed()), and for what a module keeps from batch to batch (the "
            "hidden state of an RNN), before you suspect the hardware"
          : "look in a model or data set of your own for a random generator (of a data set: other than "
            "`key`), a clock or a counter that is no registered buffer, before you suspect the hardware";
  return fail(
      ExitCode::kConfig,
      str("something on ", host, " is not deterministic: the same micro-batch computed twice gives another ",
          check.mismatch, " (", parts_.task.describe_machine(), ")"),
      hint);
}

Status Trainer::run_until_quit() {
  while (const auto start = parts_.link.wait()) {
    log_info(str("generation ", to_text(start->generation), ": rank ", start->rank, " of ",
                 start->members.size(), ", from step ", start->step));
    const Paused paused = run(*start);
    fresh_ = initialized_ = false;
    REKINDLE_CHECK(kept_.failure);
    log_info(str("paused at step ", paused.held_step, paused.detail.empty() ? "" : ": ", paused.detail));
    parts_.link.send(paused);
  }
  return {};
}

Paused Trainer::run(const Start& start) {
  const std::unique_ptr<exchange::Exchange> exchange = parts_.hub.make(plan_of(parts_.job, start));
  parts_.link.enter(start.generation, *exchange);
  Paused paused = run_in(start, *exchange);
  parts_.link.leave();
  return paused;
}

Paused Trainer::run_in(const Start& start, exchange::Exchange& exchange) {
  if (const auto why = refusal(start, kept_.replica)) return paused(start, PauseReason::kRefused, *why);
  parts_.link.set_phase(TrainerPhase::kConnecting, start.step);
  kept_.last_checkpoint = parts_.clock.now() - std::chrono::milliseconds(start.unsaved_ms);
  // The state in memory is discarded, even if this generation cannot begin.
  if (start.sources.empty()) kept_.replica = {false, 0};
  if (auto status = exchange.connect(); !status)
    return paused(start, status.error(), PauseReason::kExchangeFailed);
  if (auto problem = reach(start, exchange)) return *problem;
  StepLoop loop(parts_, kept_, start, exchange);
  return loop.run();
}

std::optional<Paused> Trainer::reach(const Start& start, exchange::Exchange& exchange) {
  const bool is_source = std::ranges::find(start.sources, start.rank) != start.sources.end();
  if (!is_source) kept_.sums.forget();  // the sums belong to the state that is about to be replaced
  if (start.sources.size() < start.members.size()) parts_.writer.release(start.step);
  if (start.sources.empty()) {
    if (auto status = restore_or_begin(start, exchange); !status)
      return paused(start, status.error(), PauseReason::kRestoreFailed);
  } else if (start.sources.size() < start.members.size()) {
    parts_.link.set_phase(TrainerPhase::kCopying, start.step);
    const auto compared = copy(parts_.task, exchange, start, kept_.replica);
    if (!compared) return paused(start, compared.error(), PauseReason::kExchangeFailed);
    if (!compared->equal) {
      Paused differs = paused(start, PauseReason::kStatesDiffer, "the copied states are not equal");
      differs.differing = compared->minority;
      return differs;
    }
  }
  return std::nullopt;
}

Status Trainer::restore_or_begin(const Start& start, exchange::Exchange& exchange) {
  if (start.restore.empty()) {
    Status begun = of_task(begin_anew());
    kept_.replica = {begun.has_value(), 0};
    return begun;
  }
  parts_.link.set_phase(TrainerPhase::kRestoring, start.step);
  REKINDLE_TRY(const std::uint64_t step, restore(parts_.task, exchange, parts_.storage, parts_.link, start));
  if (step != start.step)
    return fail(str("checkpoint ", start.restore, " is of step ", step, ", not ", start.step));
  kept_.replica = {true, step};
  return {};
}

// Loads the initial tensors of --init, if there are any.
Status Trainer::load_initial() {
  if (parts_.job.init.empty()) return {};
  // On a device: the file may lack tensors (--reset-head), which upload() would send as they are in the copy.
  REKINDLE_CHECK(parts_.task.download());
  REKINDLE_CHECK(parts_.storage.load_initial(parts_.task.state()));
  REKINDLE_CHECK(parts_.task.upload());
  initialized_ = true;
  return {};
}

Status Trainer::begin_anew() {
  if (!fresh_) REKINDLE_CHECK(parts_.task.initialize());
  return initialized_ ? Status{} : load_initial();
}

Paused Trainer::paused(const Start& start, PauseReason reason, const std::string& why) {
  parts_.link.set_phase(TrainerPhase::kIdle, kept_.replica.step);
  return {
      start.generation, parts_.link.trainer(), kept_.replica.valid, kept_.replica.step, reason, -1, {}, why};
}

Paused Trainer::paused(const Start& start, const Error& error, PauseReason reason) {
  if (reason == PauseReason::kRestoreFailed && error.kind != ErrorKind::kDamage)
    reason = error.code == ExitCode::kConfig ? PauseReason::kUnsuitable : PauseReason::kUnreadable;
  if (error.kind == ErrorKind::kTask) kept_.failure = forward_error(error);
  if (error.kind == ErrorKind::kAborted) reason = PauseReason::kAborted;
  if (error.kind == ErrorKind::kPeerFailed) reason = PauseReason::kExchangeFailed;
  if (error.kind == ErrorKind::kAlteredData) reason = PauseReason::kDataAltered;
  Paused paused = this->paused(start, reason, error.line());
  paused.peer = error.rank;
  return paused;
}

}  // namespace rekindle::trainer
