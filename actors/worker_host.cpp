#include "actors/worker_host.hpp"

#include <cstdio>

#include "actors/coordinator_finder.hpp"
#include "actors/system.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);

// The actor around protocol::Worker: events in, effects out, no decisions here.
class Host {
 public:
  Host(LocalWorker::pointer self, const WorkerConfig& config, Trainers& trainers, CoordinatorFinder& finder)
      : self_(self),
        name_(config.worker),
        joined_(config.joined),
        machine_(config, boot_time()),
        trainers_(trainers),
        finder_(finder) {}

  void feed(const WorkerEvent& event) {
    for (const WorkerEffect& effect : machine_.on(boot_time(), event)) {
      std::visit([this](const auto& e) { apply(e); }, effect);
    }
  }

  void connected(std::uint64_t term, const CoordinatorActor& coordinator) {
    if (term < machine_.term()) return;
    coordinator_ = coordinator;
    self_->monitor(coordinator);
    finder_.set_connected(true);
    feed(Connected{term});
  }

  void failed(std::uint64_t term) { feed(Disconnected{term}); }

  void lost(const caf::actor_addr& gone) {
    if (!coordinator_ || coordinator_.address() != gone) return;
    log_warning("the connection to the coordinator broke; training goes on");
    coordinator_ = nullptr;
    finder_.set_connected(false);
    feed(Disconnected{machine_.term()});
  }

  void on_message(const LocalReport& report) {
    auto message = read_report(report.message);
    if (!message) return log_error(str(report.trainer, ": ", message.error().line()));
    feed(OwnTrainerReported{report.trainer, std::move(*message)});
  }

  void order(const TrainerOrder& order) {
    auto message = read_order(order.message);
    if (!message) return log_error(message.error().line());
    for (const Recipient& to : order.to) {
      if (auto* start = std::get_if<Start>(&*message)) start->rank = to.rank;
      feed(OrderedForTrainer{order.term, to.trainer, *message});
    }
  }

  void tick() {
    feed(WorkerTick{});
    self_->delayed_send(self_, kTick, TimerTick{});
  }

 private:
  template <class Message>
  void send(Message message) {
    if (coordinator_) self_->send(coordinator_, std::move(message));
  }

  void apply(const Connect& effect) { finder_.connect(effect.term); }
  void apply(const SendRegistration& effect) {
    if (!coordinator_) return;
    self_->send(coordinator_, Register{effect.term, name_, encode(effect.registration)},
                caf::actor_cast<WorkerActor>(LocalWorker(self_)));
  }
  void apply(const SendReport& effect) { send(TrainerReport{effect.term, name_, effect.message}); }
  void apply(const SendBeat& effect) { send(WorkerBeat{effect.term, name_, effect.trainers}); }
  void apply(const PassOn& effect) { trainers_.send(effect.trainer, effect.message); }
  void apply(const StartTrainer& effect) {
    const auto started = trainers_.start(effect.trainer);
    if (started) return;
    const Error& error = started.error();
    log_error(error.line());
    const int code = static_cast<int>(error.code);
    // A started trainer would have reported this error itself.
    if (error.code == ExitCode::kConfig)
      feed(OwnTrainerReported{effect.trainer,
                              report_of(TrainerFailed{effect.trainer, code, error.what, error.hint})});
    feed(OwnTrainerEnded{effect.trainer, false, code});
  }
  void apply(const KillTrainer& effect) { trainers_.kill(effect.trainer); }
  void apply(const LeaveRun& effect) {
    log_info(str("this worker leaves: ", effect.why));
    // The supervisor of the run prints what its coordinator says. A helper has only this line.
    const bool at_fault = effect.exit_code == static_cast<int>(ExitCode::kConfig) ||
                          effect.exit_code == static_cast<int>(ExitCode::kGaveUp);
    if (joined_ && at_fault) std::fprintf(stderr, "rekindle: %s\n", printable(effect.why).c_str());
    trainers_.leave(effect.exit_code);
  }
  void apply(const Warn& effect) { log_warning(effect.line); }

  LocalWorker::pointer self_;
  const std::string name_;
  const bool joined_;  // a worker of `rekindle join`
  Worker machine_;
  Trainers& trainers_;
  CoordinatorFinder& finder_;
  CoordinatorActor coordinator_;
};

LocalWorker::behavior_type worker_actor(LocalWorker::pointer self, const WorkerConfig& config,
                                        Trainers* trainers, CoordinatorFinder* finder) {
  auto host = std::make_shared<Host>(self, config, *trainers, *finder);
  self->set_down_handler([host](const caf::down_msg& down) { host->lost(down.source); });
  end_process_on_exception(*self);
  self->send(self, TimerTick{});
  return {
      [host](const Welcome& welcome) {
        host->feed(Welcomed{welcome.term, welcome.refused});
      },
      [host](const TrainerOrder& order) { host->order(order); },
      [host](const KillTrainer& order) { host->feed(order); },
      [host](const RegisterAgain& order) { host->feed(order); },
      [host](const Dismiss& order) { host->feed(order); },
      [host](const LocalTerm& seen) { host->feed(TermSeen{seen.term}); },
      [host](const LocalConnection& made, const CoordinatorActor& coordinator) {
        host->connected(made.term, coordinator);
      },
      [host](const LocalConnection& none) { host->failed(none.term); },
      [host](const LocalReport& report) { host->on_message(report); },
      [host](const LocalEnd& end) {
        log_info(
            str("trainer ", end.trainer, " ended: ", end.by_signal ? "signal " : "exit code ", end.code));
        host->feed(OwnTrainerEnded{end.trainer, end.by_signal, end.code});
      },
      [host](const TimerTick&) { host->tick(); },
  };
}

}  // namespace

struct WorkerHost::Parts {
  Parts(const run::Layout& layout, const WorkerConfig& worker, Trainers& trainers)
      : config(layout),
        system(config),
        finder(system, layout,
               {[this](std::uint64_t term) { caf::anon_send(actor, LocalTerm{term}); },
                [this](std::uint64_t term, CoordinatorActor coordinator) {
                  caf::anon_send(actor, LocalConnection{term}, std::move(coordinator));
                },
                [this](std::uint64_t term) { caf::anon_send(actor, LocalConnection{term}); }}),
        actor(system.spawn(worker_actor, worker, &trainers, &finder)) {
    finder.start();
  }

  SystemConfig config;
  caf::actor_system system;
  CoordinatorFinder finder;
  LocalWorker actor;
};

WorkerHost::WorkerHost(const run::Layout& layout, const WorkerConfig& worker, Trainers& trainers)
    : parts_(new Parts(layout, worker, trainers)) {}

void WorkerHost::on_message(const std::string& trainer, std::string message) {
  caf::anon_send(parts_->actor, LocalReport{trainer, std::move(message)});
}

void WorkerHost::on_end(const std::string& trainer, const ExitStatus& status) {
  caf::anon_send(parts_->actor, LocalEnd{trainer, status.by_signal, status.code});
}

}  // namespace rekindle::actors
