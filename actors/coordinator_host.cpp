#include "actors/coordinator_host.hpp"

#include <map>
#include <memory>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

constexpr auto kTick = std::chrono::milliseconds(200);
constexpr int kTicksPerStatus = 5;

Committer::behavior_type committer(Committer::pointer, run::Layout layout, Job job) {
  return {[layout = std::move(layout), job = std::move(job)](const CommitOrder& order) {
    return commit(layout, job, order);
  }};
}

class Host {
 public:
  Host(LocalCoordinator::pointer self, CoordinatorParts parts)
      : self_(self),
        parts_(std::move(parts)),
        machine_(parts_.config, boot_time()),
        committer_(self->spawn<caf::detached>(committer, parts_.options.layout, parts_.options.job)) {}

  void feed(const Event& event) {
    for (const Effect& effect : machine_.on(boot_time(), event)) {
      std::visit([this](const auto& e) { apply(e); }, effect);
    }
  }

  Welcome enter(const Register& message, const WorkerActor& worker) {
    const std::uint64_t term = parts_.config.term;
    if (message.term != term) return {term, str("term ", message.term, " is not this coordinator's")};
    if (message.build != parts_.options.build)
      return {term, "another build of rekindle: use one for all nodes"};
    workers_[message.worker] = worker;
    self_->monitor(worker);
    log_info(str("worker ", message.worker, " on ", message.host, " registered"));
    feed(WorkerJoined{message.worker, message.host});
    return {term, ""};
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
    if (report.term != parts_.config.term) return;
    auto message = decode<FromTrainer>(report.message);
    if (!message) return log_error(message.error().line());
    remember(report.worker, *message);
    feed(TrainerSaid{report.worker, std::move(*message)});
  }

  void supervisor_said(const SupervisorSaid& said) {
    auto message = decode<ToCoordinator>(said.message);
    if (!message) return log_error(message.error().line());
    if (const auto* stop = std::get_if<StopRun>(&*message))
      return feed(StopAsked{stop->exit_code, stop->why});
    const auto& died = std::get<WorkerDied>(*message);
    feed(WorkerLost{died.worker, died.by_signal ? str("killed by signal ", died.code)
                                                : str("exit code ", died.code, ", see logs/worker-w*.log")});
  }

  void committed(const CommitReply& reply) {
    if (reply.higher_term > 0) feed(Fenced{reply.higher_term});
    feed(CommitDone{{reply.term, reply.generation}, reply.step, reply.checkpoint, reply.error});
  }

  void beat(const WorkerBeat& beat) {
    if (beat.term == parts_.config.term) feed(WorkerBeatSeen{beat.worker});
  }

  void tick() {
    feed(Tick{});
    if (++ticks_ % kTicksPerStatus == 0) parts_.records.show(machine_, "running");
    self_->delayed_send(self_, kTick, TimerTick{});
  }

  void gone_supervisor() {
    log_error("the supervisor is gone: this run ends");
    finish(70, "the supervisor is gone");
  }

 private:
  void remember(const std::string& worker, const FromTrainer& message) {
    if (const auto* ready = std::get_if<TrainerReady>(&message)) worker_of_[ready->trainer] = worker;
  }

  void finish(int exit_code, const std::string& line) {
    parts_.records.show(machine_, exit_code == 0                        ? "finished"
                                  : exit_code == 75 || exit_code == 130 ? "saved"
                                                                        : "failed");
    parts_.end.set(exit_code, line, machine_.step());
  }

  void tell(const ToSupervisor& message) {
    if (auto sent = parts_.supervisor.send(encode(message)); !sent) log_warning(sent.error().line());
  }

  void apply(const SendTrainer& effect) {
    ToTrainer message = effect.message;
    if (auto* start = std::get_if<Start>(&message)) {
      // One secret a generation, known only to its members.
      if (secret_of_ != start->generation) {
        secret_of_ = start->generation;
        secret_ = random_hex(32);
      }
      start->secret = secret_;
    }
    const auto worker = worker_of_.find(effect.trainer);
    if (worker == worker_of_.end() || !workers_.contains(worker->second)) return;
    self_->send(workers_.at(worker->second),
                TrainerOrder{parts_.config.term, effect.trainer, encode(message)});
  }
  void apply(const Commit& effect) {
    const CommitOrder order{effect.generation.term, effect.generation.number, effect.step,  effect.digest,
                            effect.fingerprint,     effect.tensors,           effect.shards};
    self_->request(committer_, caf::infinite, order).then([this](const CommitReply& reply) {
      committed(reply);
    });
  }
  void apply(const Abandon& effect) { parts_.records.abandon(effect.generation, effect.step); }
  void apply(const SetAside& effect) { parts_.records.set_aside(effect.checkpoint); }
  void apply(const Rewind& effect) { parts_.records.rewind(effect.step); }
  void apply(const RecordStep& effect) { parts_.records.record(effect.done, effect.trainers); }
  void apply(const RecordEvaluation& effect) { parts_.records.record(effect.evaluated); }
  void apply(const ShowProgress& effect) { tell(effect.progress); }
  void apply(const Tell& effect) {
    log_info(effect.line);
    tell(Say{effect.line});
  }
  void apply(const Warn& effect) {
    log_warning(effect.line);
    tell(Say{str("warning: ", effect.line)});
  }
  void apply(const Finish& effect) {
    finish(effect.exit_code, effect.hint.empty() ? effect.line : str(effect.line, ": ", effect.hint));
  }

  LocalCoordinator::pointer self_;
  CoordinatorParts parts_;
  Coordinator machine_;
  Committer committer_;
  std::map<std::string, WorkerActor> workers_;
  std::map<std::string, std::string> worker_of_;  // by trainer
  GenerationId secret_of_;
  std::string secret_;
  int ticks_ = 0;
};

LocalCoordinator::behavior_type coordinator(LocalCoordinator::pointer self, CoordinatorParts parts) {
  // Shared by the handlers below, which live and die with the actor.
  auto host = std::make_shared<Host>(self, std::move(parts));
  self->set_down_handler([host](const caf::down_msg& down) { host->leave(down.source); });
  self->send(self, TimerTick{});
  return {
      [host](const Register& message, const WorkerActor& worker) { return host->enter(message, worker); },
      [host](const TrainerReport& report) { host->report(report); },
      [host](const WorkerBeat& beat) { host->beat(beat); },
      [host](const SupervisorSaid& said) { host->supervisor_said(said); },
      [host](const SupervisorGone&) { host->gone_supervisor(); },
      [host](const TimerTick&) { host->tick(); },
  };
}

}  // namespace

LocalCoordinator spawn_coordinator(caf::actor_system& system, CoordinatorParts parts) {
  return system.spawn<caf::detached>(coordinator, std::move(parts));
}

}  // namespace rekindle::actors
