#include "actors/worker.hpp"

#include <unistd.h>

#include <memory>

#include "actors/coordinator_finder.hpp"
#include "actors/system.hpp"
#include "actors/trainer_group.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"
#include "protocol/worker.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

constexpr auto kTick = std::chrono::milliseconds(100);

// The actor around protocol::Worker: events in, effects out, nothing decided here.
class Host {
 public:
  Host(LocalWorker::pointer self, const WorkerConfig& config, TrainerGroup& trainers,
       CoordinatorFinder*& finder)
      : self_(self),
        name_(config.worker),
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
    finder_->set_connected(true);
    feed(Connected{term});
  }

  void failed(std::uint64_t term) { feed(Disconnected{term}); }

  void lost(const caf::actor_addr& gone) {
    if (!coordinator_ || coordinator_.address() != gone) return;
    log_warning("the connection to the coordinator broke; training goes on");
    coordinator_ = nullptr;
    finder_->set_connected(false);
    feed(Disconnected{machine_.term()});
  }

  void said(const LocalReport& report) {
    auto message = decode<FromTrainer>(report.message);
    if (!message) return log_error(message.error().line());
    feed(OwnTrainerSaid{report.trainer, std::move(*message)});
  }

  void order(const TrainerOrder& order) {
    auto message = decode<ToTrainer>(order.message);
    if (!message) return log_error(message.error().line());
    feed(OrderedForTrainer{order.term, {order.trainer, std::move(*message)}});
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

  void apply(const Connect& effect) { finder_->connect(effect.term); }
  void apply(const SendRegistration& effect) {
    if (!coordinator_) return;
    self_->send(coordinator_, Register{effect.term, name_, encode(effect.registration)},
                caf::actor_cast<WorkerActor>(LocalWorker(self_)));
  }
  void apply(const SendReport& effect) { send(TrainerReport{effect.term, name_, encode(effect.message)}); }
  void apply(const SendBeat& effect) { send(WorkerBeat{effect.term, name_, effect.trainers}); }
  void apply(const PassOn& effect) { trainers_.send(effect.trainer, encode(effect.message)); }
  void apply(const StartTrainer& effect) {
    const auto started = trainers_.start(effect.trainer);
    if (started) return;
    log_error(started.error().line());
    feed(OwnTrainerEnded{effect.trainer, false, static_cast<int>(ExitCode::kGaveUp)});
  }
  void apply(const EndTrainer& effect) { trainers_.kill(effect.trainer); }
  void apply(const LeaveRun& effect) {
    log_info(str("this worker leaves: ", effect.why));
    trainers_.kill_all();
    // No orderly teardown: other threads may be anywhere.
    ::_exit(effect.exit_code);
  }
  void apply(const Warn& effect) { log_warning(effect.line); }

  LocalWorker::pointer self_;
  const std::string name_;
  Worker machine_;
  TrainerGroup& trainers_;
  CoordinatorFinder*& finder_;
  CoordinatorActor coordinator_;
};

LocalWorker::behavior_type worker_actor(LocalWorker::pointer self, WorkerConfig config,
                                        TrainerGroup* trainers, CoordinatorFinder** finder) {
  auto host = std::make_shared<Host>(self, config, *trainers, *finder);
  self->set_down_handler([host](const caf::down_msg& down) { host->lost(down.source); });
  self->send(self, TimerTick{});
  return {
      [host](const Welcome& welcome) {
        host->feed(Welcomed{welcome.term, welcome.refused});
      },
      [host](const TrainerOrder& order) { host->order(order); },
      [host](const KillOrder& order) {
        host->feed(OrderedKill{order.term, {order.trainer, order.why}});
      },
      [host](const RegisterOrder& order) { host->feed(AskedToRegister{order.term}); },
      [host](const DismissOrder& order) {
        host->feed(Dismissed{order.term, {order.exit_code, order.why}});
      },
      [host](const LocalTerm& seen) { host->feed(TermSeen{seen.term}); },
      [host](const LocalConnection& made, const CoordinatorActor& coordinator) {
        host->connected(made.term, coordinator);
      },
      [host](const LocalConnection& none) { host->failed(none.term); },
      [host](const LocalReport& report) { host->said(report); },
      [host](const LocalEnd& end) {
        log_info(
            str("trainer ", end.trainer, " ended: ", end.by_signal ? "signal " : "exit code ", end.code));
        host->feed(OwnTrainerEnded{end.trainer, end.by_signal, end.code});
      },
      [host](const TimerTick&) { host->tick(); },
  };
}

}  // namespace

int run_worker(const WorkerOptions& options, Fd supervisor_socket) {
  SystemConfig config(options.layout);
  caf::actor_system system(config);
  TrainerGroup trainers({options.trainer_program, options.layout.root(), options.job});
  WorkerConfig worker;
  worker.worker = options.name;
  worker.host = host_name();
  worker.build = options.build;
  worker.slots = static_cast<int>(options.job.trainers_per_worker);
  worker.least_term = options.term;
  worker.alone_limit = options.alone_limit;
  CoordinatorFinder* finder = nullptr;
  const LocalWorker actor = system.spawn(worker_actor, worker, &trainers, &finder);
  CoordinatorFinder found(system, options.layout,
                          {[&](std::uint64_t term) { caf::anon_send(actor, LocalTerm{term}); },
                           [&](std::uint64_t term, CoordinatorActor coordinator) {
                             caf::anon_send(actor, LocalConnection{term}, std::move(coordinator));
                           },
                           [&](std::uint64_t term) { caf::anon_send(actor, LocalConnection{term}); }});
  finder = &found;
  found.start();
  trainers.serve(supervisor_socket.get(),
                 {[&](const std::string& trainer, std::string message) {
                    caf::anon_send(actor, LocalReport{trainer, std::move(message)});
                  },
                  [&](const std::string& trainer, const ExitStatus& status) {
                    caf::anon_send(actor, LocalEnd{trainer, status.by_signal, status.code});
                  }});
  // The supervisor is gone, or wants this worker to go.
  trainers.kill_all();
  ::_exit(0);  // no orderly teardown: other threads refer to what this frame owns
}

}  // namespace rekindle::actors
