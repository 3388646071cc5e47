#include "actors/coordinator_host.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "actors/batch_samples.hpp"
#include "actors/commits.hpp"
#include "actors/host_state.hpp"
#include "actors/outbox.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "protocol/admission.hpp"
#include "protocol/wire.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

constexpr auto kTick = std::chrono::milliseconds(200), kHeldUp = std::chrono::milliseconds(2000);
constexpr std::size_t kShownASecond = 1024;  // trainers
constexpr int kTicksPerStatus = 5, kTicksPerTermCheck = 25;

class Host {
 public:
  Host(LocalCoordinator::pointer self, CoordinatorParts parts)
      : self_(self),
        parts_(std::move(parts)),
        term_(parts_.config.term),
        machine_(parts_.config, boot_time()),
        committer_(new_committer()),
        term_reader_(new_committer()) {}

  void feed(const Event& event) {
    // After a long suspension another coordinator may hold the run: read the newest term before deciding
    // anything.
    const auto now = boot_time();
    const bool slept = now - std::exchange(held_.last_event, now) > kHeldUp;
    if (!slept && held_.events.empty()) return decide(event);
    held_.events.push_back(event);
    if (held_.events.size() > 1) return;  // the newest term is being read already
    self_->request(term_reader_, caf::infinite, TermCheck{term_}).then([this](const TermCheckReply& reply) {
      held_.last_event = boot_time();
      if (reply.newest > term_) decide(Fenced{reply.newest});
      for (const Event& each : std::exchange(held_.events, {})) decide(each);
    });
  }

  void decide(const Event& event) {
    for (const Effect& effect : machine_.on(boot_time(), event)) {
      std::visit([this](const auto& e) { apply(e); }, effect);
    }
    parts_.events.observe(machine_);
    flush();
    if (machine_.ending() && !std::exchange(stop_.ending_sent, true))
      send_supervisor(Ended{machine_.ending()->exit_code, machine_.ending()->line, false});
    outbox_.write_lines();
  }

  void enter(const Register& message, const WorkerActor& worker) {
    // The message was for another coordinator that used this port. An answer could arrive after the worker
    // has found this coordinator, so none is sent.
    if (message.term != term_) return;
    auto registration = decode<Registration>(message.message);
    std::string refused;
    if (!registration)
      refused = registration.error().line();
    else
      refused = refusal_of(*registration, parts_.options.build, parts_.options.layout.root().root_inode());
    // The Welcome must arrive before any order to the worker.
    self_->send(worker, Welcome{term_, refused});
    if (!refused.empty()) return log_warning(str("worker ", message.worker, " is refused: ", refused));
    workers_[message.worker] = worker;
    self_->monitor(worker);
    log_info(str("worker ", message.worker, " on ", registration->host, " registered"));
    feed(WorkerRegistered{std::move(*registration)});
  }

  void leave(const caf::actor_addr& gone) {
    for (const auto& [name, worker] : workers_) {
      if (worker.address() != gone) continue;
      const std::string worker_name = name;
      workers_.erase(worker_name);
      return feed(WorkerLost{worker_name, "its connection broke"});
    }
  }

  void report(const TrainerReport& report) {
    if (report.term != term_) return;
    auto message = decode<FromTrainer>(report.message);
    if (!message) return log_error(str("a trainer of ", report.worker, ": ", message.error().line()));
    feed(TrainerReported{report.worker, std::move(*message)});
  }

  void on_supervisor_message(const FromSupervisor& from) {
    auto message = decode<ToCoordinator>(from.message);
    if (!message) return log_error(message.error().line());
    std::visit([this](const auto& each) { of_supervisor(each); }, *message);
  }
  void of_supervisor(const StopRun& stop) { feed(stop); }
  void of_supervisor(const WorkerDied& died) {
    feed(WorkerLost{died.worker, died.by_signal ? str("killed by signal ", died.code)
                                                : str("exit code ", died.code, ", see logs/worker-w*.log")});
  }

  void committed(const CommitReply& reply) {
    parts_.events.committed(reply);
    if (reply.higher_term > 0) feed(Fenced{reply.higher_term});
    feed(CommitDone{{reply.term, reply.generation},
                    reply.step,
                    reply.checkpoint,
                    reply.fingerprint,
                    reply.error,
                    reply.committed});
  }

  void beat(const WorkerBeat& beat) {
    if (beat.term == term_) feed(WorkerBeatSeen{beat.worker, beat.trainers});
  }

  void tick() {
    feed(Tick{});
    ++ticks_;
    // With thousands of trainers the status has a megabyte: writing it each second would be most of this
    // process's work.
    const auto per_show =
        kTicksPerStatus * (1 + static_cast<int>(machine_.trainers().size() / kShownASecond));
    if (ticks_ % per_show == 0) parts_.status.show(machine_, parts_.records.last());
    if (ticks_ % kTicksPerStatus == 0) {
      for (const auto& change : parts_.status.look_for_slow(machine_))
        parts_.events.record(change, machine_.step());
      send_supervisor(CoordinatorBeat{term_, machine_.activity()});
      look_for_stop();
    }
    if (ticks_ % kTicksPerTermCheck == 0) look_for_newer_term();
    self_->delayed_send(self_, kTick, TimerTick{});
  }

  void on_supervisor_gone() {
    log_error("the supervisor is gone: this coordinator ends, and a helper may take the run over");
    parts_.status.show_end(machine_, parts_.records.last(), static_cast<int>(ExitCode::kGaveUp),
                           "the run's supervisor died");
    parts_.end.orphan(machine_.step());
  }

 private:
  // `rekindle stop` leaves a file, so the request survives the death of a coordinator.
  void look_for_stop() {
    if (stop_.seen || std::exchange(stop_.being_read, true)) return;
    self_->request(term_reader_, caf::infinite, StopCheck{}).then([this](const StopCheckReply& reply) {
      stop_.being_read = false;
      if (!reply.asked || std::exchange(stop_.seen, true)) return;
      feed(StopRun{static_cast<int>(ExitCode::kSaved), "rekindle stop",
                   Time(static_cast<std::int64_t>(parts_.options.job.stop_within_ms))});
    });
  }

  void look_for_newer_term() {
    self_->request(term_reader_, caf::infinite, TermCheck{term_}).then([this](const TermCheckReply& reply) {
      if (reply.newest > term_) feed(Fenced{reply.newest});
    });
  }

  // A suspended supervisor must not block the coordinator: the supervisor misses some messages.
  void send_supervisor(const ToSupervisor& message) {
    if (parts_.supervisor.congested()) return;
    if (auto sent = parts_.supervisor.send(encode(message)); !sent) log_warning(sent.error().line());
  }

  void apply(const SendTrainer& effect) { outbox_.put(effect); }
  void flush() {
    outbox_.flush(
        [this](ToTrainer& message) {
          auto* start = std::get_if<Start>(&message);
          if (start != nullptr) start->secret = secret_.for_generation(start->generation);
        },
        [this](const std::string& worker, std::vector<Recipient> to, const std::string& message) {
          deliver(worker, TrainerOrder{term_, std::move(to), message});
        });
  }
  void apply(const KillTrainer& order) { send_to(order.worker, order); }
  void apply(const Dismiss& order) { send_to(order.worker, order); }
  void apply(const RegisterAgain& order) { send_to(order.worker, order); }
  // Messages that were decided earlier go out first.
  template <class Order>
  void send_to(const std::string& worker, Order order) {
    flush();
    deliver(worker, std::move(order));
  }
  template <class Order>
  void deliver(const std::string& worker, Order order) {
    const auto found = workers_.find(worker);
    if (found != workers_.end()) self_->send(found->second, std::move(order));
  }
  void apply(const Commit& effect) {
    parts_.events.commits(effect);
    const CommitOrder order{term_,          effect.generation.term, effect.generation.number,
                            effect.step,    effect.digest,          effect.fingerprint,
                            effect.tensors, effect.shards,          effect.pinned};
    self_->request(committer_, caf::infinite, order).then([this](const CommitReply& reply) {
      committed(reply);
    });
  }
  void apply(const Sweep& effect) {
    parts_.events.record(effect, machine_.step());
    const SweepOrder order{term_, effect.generation.term, effect.generation.number, effect.restored};
    self_->request(committer_, caf::infinite, order).then([this](const SweepReply& reply) {
      feed(Swept{reply.committed});
    });
  }
  void apply(const Abandon& effect) { abandon_later(parts_.writer, effect.generation, effect.step); }
  void apply(const SetAside& effect) { set_aside_later(parts_.writer, effect.checkpoint); }
  void apply(const Rewind& effect) {
    parts_.records.rewind(effect.step);
    parts_.events.record(effect);
  }
  void apply(const RecordStep& effect) {
    for (const std::string& line : parts_.records.record(effect.done)) apply(Warn{line});
    parts_.events.record(effect.done);
  }
  void apply(const RecordEvaluation& effect) {
    parts_.records.record(effect.evaluated);
    parts_.events.record(effect.evaluated);
  }
  void apply(const RecordLoss& effect) { parts_.events.record(effect, machine_.step()); }
  void apply(const ShowProgress& effect) { send_supervisor(effect.progress); }
  void apply(const Info& effect) { say(LogLevel::kInfo, "", effect.line); }
  void apply(const Warn& effect) { say(LogLevel::kWarning, "warning: ", effect.line); }
  void say(LogLevel level, const std::string& prefix, const std::string& line) {
    outbox_.put(level, line);
    send_supervisor(Say{prefix + line});
  }
  void apply(const Finish& effect) {
    outbox_.write_lines();  // before this process ends
    std::string line = effect.line;
    if (effect.stuck_at) line += str(" (", samples_of(parts_.options.job, *effect.stuck_at), ")");
    if (!effect.hint.empty()) line += ": " + effect.hint;
    parts_.status.show_end(machine_, parts_.records.last(), effect.exit_code, line);
    parts_.end.set(effect.exit_code, line, machine_.step(), may_pass(effect.cause));
  }

  Committer new_committer() {
    return self_->spawn<caf::detached>(committer, parts_.options.layout, parts_.options.job, &parts_.writer);
  }

  LocalCoordinator::pointer self_;
  CoordinatorParts parts_;
  const std::uint64_t term_;
  Coordinator machine_;
  Committer committer_, term_reader_;  // commits may take long, and terms must be read meanwhile
  std::map<std::string, WorkerActor> workers_;
  Outbox outbox_;
  Secret secret_;
  int ticks_ = 0;
  HeldEvents held_;
  StopState stop_;
};

LocalCoordinator::behavior_type coordinator(LocalCoordinator::pointer self, CoordinatorParts parts) {
  // Shared by the handlers below, which exist as long as the actor.
  auto host = std::make_shared<Host>(self, std::move(parts));
  self->set_down_handler([host](const caf::down_msg& down) { host->leave(down.source); });
  end_process_on_exception(*self);
  self->send(self, TimerTick{});
  return {
      [host](const Register& message, const WorkerActor& worker) { host->enter(message, worker); },
      [host](const TrainerReport& report) { host->report(report); },
      [host](const WorkerBeat& beat) { host->beat(beat); },
      [host](const FromSupervisor& from) { host->on_supervisor_message(from); },
      [host](const SupervisorGone&) { host->on_supervisor_gone(); },
      [host](const TimerTick&) { host->tick(); },
  };
}

}  // namespace

LocalCoordinator spawn_coordinator(caf::actor_system& system, CoordinatorParts parts) {
  return system.spawn<caf::detached>(coordinator, std::move(parts));
}

}  // namespace rekindle::actors
