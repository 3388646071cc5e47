#include "play.hpp"

#include <csignal>
#include <cstdio>

#include "base/text.hpp"
#include "protocol/describe.hpp"
#include "protocol/wire.hpp"

namespace rekindle::protocol::play {

namespace {

constexpr Time kTick{100};

std::string what_else(const Effect& effect) {
  struct {
    std::string operator()(const Commit& e) const {
      return str("writes the manifest of step ", e.step, " of ", to_text(e.generation));
    }
    std::string operator()(const Sweep& e) const { return str("sweeps up to ", e.restored); }
    std::string operator()(const Abandon& e) const {
      return str("removes what was written of step ", e.step, " of ", to_text(e.generation));
    }
    std::string operator()(const SetAside& e) const { return str("sets ", e.checkpoint, " aside"); }
    std::string operator()(const Rewind& e) const { return str("rewinds the records to step ", e.step); }
    std::string operator()(const RecordStep&) const { return ""; }
    std::string operator()(const RecordEvaluation&) const { return ""; }
    std::string operator()(const RecordLoss&) const { return ""; }
    std::string operator()(const ShowProgress&) const { return ""; }
    std::string operator()(const Info& e) const { return str("says \"", e.line, "\""); }
    std::string operator()(const Warn& e) const { return str("warns \"", e.line, "\""); }
    std::string operator()(const Finish& e) const { return str("ends, exit code ", e.exit_code); }
    std::string operator()(const SendTrainer&) const { return ""; }
    std::string operator()(const KillTrainer&) const { return ""; }
    std::string operator()(const Dismiss&) const { return ""; }
    std::string operator()(const RegisterAgain&) const { return ""; }
  } words;
  return std::visit(words, effect);
}

}  // namespace

CoordinatorConfig small_run(std::uint64_t train_samples) {
  CoordinatorConfig config;
  config.job.steps = 100;
  config.job.micro_batches = 4;
  config.job.batch_size = 8;
  config.job.train_samples = train_samples;
  config.job.test_samples = 16;
  config.expected_trainers = 2;
  return config;
}

// ---- events ----

void Play::coordinator_starts() {
  coordinator_.emplace(config_, now_);
  happens(str("the coordinator of term ", config_.term, " starts"));
  for (auto& [name, worker] : workers_) connect(name);
}

void Play::coordinator_dies() {
  happens("the coordinator dies");
  coordinator_.reset();
  for (auto& [name, worker] : workers_) to_worker(name, Disconnected{config_.term});
  ++config_.term;
  config_.restarted = true;
}

void Play::worker_starts(const std::string& worker) {
  WorkerConfig config;
  config.worker = worker;
  config.host = str("host of ", worker);
  config.build = "build";
  workers_.emplace(worker, Actor(config, now_));
  connect(worker);
}

void Play::connect(const std::string& worker) {
  to_worker(worker, TermSeen{config_.term});
  to_worker(worker, Connected{config_.term});
}

void Play::worker_dies(const std::string& worker) {
  happens(str(worker, " dies with its trainer"));
  workers_.erase(worker);
  to_coordinator(WorkerLost{worker, "its connection broke"});
}

void Play::trainer_warms_up(const std::string& trainer) {
  say(trainer, TrainerReady{trainer, str("host of ", worker_name(trainer)), "cpu", "{}", {}, 1});
}

void Play::trainer_dies(const std::string& trainer, int signal) { end(trainer, true, signal); }
void Play::trainer_crashes(const std::string& trainer, int exit_code) { end(trainer, false, exit_code); }

void Play::end(const std::string& trainer, bool by_signal, int code) {
  happens(str("trainer ", trainer, " ends, ", by_signal ? "signal " : "code ", code));
  const std::string worker = worker_name(trainer);
  worker_of(trainer).trainers.erase(trainer);
  to_worker(worker, OwnTrainerEnded{trainer, by_signal, code});
}

void Play::pauses(const std::string& trainer, std::optional<std::uint64_t> held, PauseReason reason, int peer,
                  std::vector<int> differing) {
  const Start& start = worker_of(trainer).trainers.at(trainer);
  say(trainer, Paused{start.generation, trainer, held.has_value(), held.value_or(0), reason, peer,
                      std::move(differing), ""});
}

void Play::writes(const std::string& trainer, std::uint64_t step, const std::string& digest) {
  const Start& start = worker_of(trainer).trainers.at(trainer);
  say(trainer, ShardBegun{start.generation, trainer, step});
  say(trainer, ShardWritten{start.generation, trainer, step, start.rank, "s", "t", digest, 1});
}

void Play::completes_step(const std::string& trainer, std::uint64_t step) {
  StepDone done;
  done.generation = worker_of(trainer).trainers.at(trainer).generation;
  done.step = step;
  say(trainer, done);
}

void Play::asked_to_stop(int exit_code) {
  line("supervisor", "coordinator", str("stop, exit code ", exit_code));
  to_coordinator(StopRun{exit_code, "SIGUSR1", Time(0)});
}

void Play::committed(std::uint64_t step) {
  if (!commit_ || commit_->step != step) return happens(str("nobody was told to commit step ", step));
  happens(str("the manifest of step ", step, " is renamed"));
  to_coordinator(CommitDone{commit_->generation, step, str("step-", step), "{}", ""});
}

void Play::wait(Time time) {
  for (const Time end = now_ + time; now_ < end;) {
    now_ += kTick;
    for (auto& [name, worker] : workers_) {
      for (auto& [trainer, start] : worker.trainers) {
        TrainerBeat beat;
        beat.trainer = trainer;
        beat.phase = TrainerPhase::kComputing;
        beat.generation = start.generation;
        beat.progress = ++worker.progress;
        to_worker(name, OwnTrainerReported{trainer, report_of(beat)});
      }
      to_worker(name, WorkerTick{});
    }
    if (coordinator_) to_coordinator(Tick{});
  }
}

// ---- delivery ----

void Play::line(const std::string& from, const std::string& to, const std::string& words) {
  char head[64];
  std::snprintf(head, sizeof head, "%6.1f  %-11s > %-11s  ", static_cast<double>(now_.count()) / 1000,
                from.c_str(), to.c_str());
  text_ += head + words + "\n";
}

void Play::happens(const std::string& words) {
  char head[16];
  std::snprintf(head, sizeof head, "%6.1f  ", static_cast<double>(now_.count()) / 1000);
  text_ += head + str("* ", words) + "\n";
}

void Play::to_coordinator(const Event& event) {
  if (!coordinator_) return;
  const Phase before = coordinator_->phase();
  const auto effects = coordinator_->on(now_, event);
  if (const Phase after = coordinator_->phase(); after != before)
    happens(str("coordinator: ", to_text(before), " -> ", to_text(after)));
  for (const Effect& effect : effects) apply(effect);
}

void Play::to_worker(const std::string& worker, const WorkerEvent& event) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  for (const WorkerEffect& effect : found->second.machine.on(now_, event)) apply(worker, effect);
}

void Play::say(const std::string& trainer, const FromTrainer& message) {
  to_worker(worker_name(trainer), OwnTrainerReported{trainer, report_of(message)});
}

void Play::apply(const Effect& effect) {
  if (const auto* e = std::get_if<SendTrainer>(&effect)) {
    line("coordinator", e->trainer, describe(e->message));
    return to_worker(e->worker,
                     OrderedForTrainer{config_.term, e->trainer, read_order(encode(e->message)).value()});
  }
  if (const auto* order = std::get_if<KillTrainer>(&effect)) {
    line("coordinator", order->worker, str("kill ", order->trainer, ": ", order->why));
    return to_worker(order->worker, *order);
  }
  if (const auto* order = std::get_if<Dismiss>(&effect)) {
    line("coordinator", order->worker, str("dismissed: ", order->why));
    return to_worker(order->worker, *order);
  }
  if (const auto* order = std::get_if<RegisterAgain>(&effect)) {
    line("coordinator", order->worker, "register again");
    return to_worker(order->worker, *order);
  }
  if (const auto* e = std::get_if<Commit>(&effect)) commit_ = *e;
  if (const std::string words = what_else(effect); !words.empty()) happens(str("coordinator ", words));
}

void Play::apply(const std::string& worker, const WorkerEffect& effect) {
  Actor& actor = workers_.at(worker);
  if (const auto* e = std::get_if<SendRegistration>(&effect)) {
    line(worker, "coordinator", str("register, ", describe(e->registration)));
    to_coordinator(WorkerRegistered{e->registration});
    to_worker(worker, Welcomed{config_.term, ""});
  } else if (const auto* e = std::get_if<SendReport>(&effect)) {
    std::string trainer = worker;
    for (const auto& [name, start] : actor.trainers) trainer = name;
    const FromTrainer message = decode<FromTrainer>(e->message).value();
    line(trainer, "coordinator", describe(message));
    to_coordinator(TrainerReported{worker, message});
  } else if (const auto* e = std::get_if<SendBeat>(&effect)) {
    to_coordinator(WorkerBeatSeen{worker, e->trainers});
  } else if (const auto* e = std::get_if<StartTrainer>(&effect)) {
    actor.trainers[e->trainer] = {};
    happens(str(worker, " starts trainer ", e->trainer));
  } else if (const auto* e = std::get_if<PassOn>(&effect)) {
    const ToTrainer message = decode<ToTrainer>(e->message).value();
    if (const auto* start = std::get_if<Start>(&message)) actor.trainers[e->trainer] = *start;
  } else if (const auto* e = std::get_if<KillTrainer>(&effect)) {
    end(e->trainer, true, SIGKILL);
  } else if (const auto* e = std::get_if<LeaveRun>(&effect)) {
    happens(str(worker, " leaves, exit code ", e->exit_code));
  }
}

Play::Actor& Play::worker_of(const std::string& trainer) { return workers_.at(worker_name(trainer)); }
std::string Play::worker_name(const std::string& trainer) const {
  return trainer.substr(0, trainer.find('.'));
}

}  // namespace rekindle::protocol::play
