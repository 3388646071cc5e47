#include "actors/worker.hpp"

#include <poll.h>

#include <unistd.h>
#include <atomic>
#include <csignal>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "actors/system.hpp"
#include "actors/trainer_group.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"

namespace rekindle::actors {

using namespace protocol;

namespace {

constexpr auto kBeat = std::chrono::milliseconds(500);
constexpr auto kConnectPatience = std::chrono::seconds(60);
constexpr auto kPollPeriodMs = 100;

struct Place {
  std::uint64_t term = 0;
  std::string host;
  std::uint16_t port = 0;
};

// coordinator.json, if it names a term that is not below `least`.
std::optional<Place> look_up(const run::Layout& layout, std::uint64_t least) {
  const auto text = read_text(layout.coordinator());
  if (!text) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const Place place{json.value("term", std::uint64_t{0}), json.value("host", ""),
                    json.value("port", std::uint16_t{0})};
  if (place.term < least || place.port == 0) return std::nullopt;
  return place;
}

// The worker's actor: orders down to the trainers, reports up to the coordinator, a beat twice a second.
LocalWorker::behavior_type worker_actor(LocalWorker::pointer self, std::string name, std::uint64_t term,
                                        CoordinatorActor coordinator, TrainerGroup* trainers) {
  self->monitor(coordinator);
  self->set_down_handler([trainers](const caf::down_msg&) {
    if (trainers->over()) ::_exit(0);  // the run has ended
    // In this version nobody takes over: without a coordinator this node has nothing to do. The trainers see
    // the end of their sockets.
    log_error("the coordinator is gone: this worker and its trainers end");
    ::_exit(static_cast<int>(ExitCode::kGaveUp));
  });
  self->send(self, TimerTick{});
  return {
      [trainers, term](const TrainerOrder& order) {
        if (order.term >= term) trainers->send(order.trainer, order.message);
      },
      [=](const LocalReport& report) {
        self->send(coordinator, TrainerReport{term, name, report.message});
      },
      [=](const TimerTick&) {
        self->send(coordinator, WorkerBeat{term, name});
        self->delayed_send(self, kBeat, TimerTick{});
      },
  };
}

// Waits for a coordinator and connects; a dead or slow one is looked up again.
Result<std::pair<CoordinatorActor, Place>> find_coordinator(caf::actor_system& system,
                                                            const WorkerOptions& options, int supervisor_fd) {
  std::string last = "coordinator.json does not name one";
  const auto until = std::chrono::steady_clock::now() + kConnectPatience;
  while (std::chrono::steady_clock::now() < until) {
    if (const auto place = look_up(options.layout, options.term)) {
      auto handle = caf::openssl::remote_actor<CoordinatorActor>(system, place->host, place->port);
      if (handle) return std::pair(*handle, *place);
      last = caf::to_string(handle.error());
    }
    pollfd gone{supervisor_fd, POLLIN, 0};
    if (::poll(&gone, 1, kPollPeriodMs) > 0) return fail("the supervisor is gone");
  }
  return fail(str("no coordinator could be reached: ", last),
              "look at logs/coordinator.log in the run directory");
}

Status register_with(caf::actor_system& system, const CoordinatorActor& coordinator, const LocalWorker& actor,
                     const WorkerOptions& options, std::uint64_t term) {
  caf::scoped_actor self(system);
  Status status = fail("the coordinator did not answer");
  self->request(coordinator, std::chrono::seconds(30),
                Register{options.name, host_name(), options.build, term}, caf::actor_cast<WorkerActor>(actor))
      .receive(
          [&](const Welcome& welcome) {
            status = welcome.refused.empty()
                         ? Status()
                         : fail(str("the coordinator refused this worker: ", welcome.refused));
          },
          [&](const caf::error& error) {
            status = fail(str("the coordinator did not answer: ", caf::to_string(error)));
          });
  return status;
}

Status serve(const WorkerOptions& options, int supervisor_fd) {
  SystemConfig config(options.layout);
  caf::actor_system system(config);
  REKINDLE_TRY(const auto found, find_coordinator(system, options, supervisor_fd));
  const auto& [coordinator, place] = found;
  TrainerGroup trainers({options.trainer_program, options.layout.root(), options.name,
                         static_cast<int>(options.job.trainers_per_worker), options.job});
  LocalWorker actor = system.spawn(worker_actor, options.name, place.term, coordinator, &trainers);
  REKINDLE_CHECK(register_with(system, coordinator, actor, options, place.term));
  REKINDLE_CHECK(trainers.start());
  const auto report = [&](const FromTrainer& message) {
    caf::anon_send(actor, LocalReport{encode(message)});
  };
  trainers.serve(
      supervisor_fd, [&](std::string message) { caf::anon_send(actor, LocalReport{std::move(message)}); },
      [&](const TrainerGroup::Ended& ended) {
        log_info(str("trainer ", ended.trainer, " ended: ", ended.status.by_signal ? "signal " : "exit code ",
                     ended.status.code));
        report(TrainerExited{ended.trainer, ended.status.by_signal, ended.status.code});
      });
  // The last reports must get through; the supervisor (or its end) says when this process may go.
  pollfd gone{supervisor_fd, POLLIN, 0};
  ::poll(&gone, 1, 10000);
  // No orderly teardown: handlers refer to what this frame owns.
  ::_exit(0);
}

}  // namespace

int run_worker(const WorkerOptions& options, Fd supervisor_socket) {
  if (auto status = serve(options, supervisor_socket.get()); !status) {
    log_error(status.error().line());
    return static_cast<int>(status.error().code);
  }
  return 0;
}

}  // namespace rekindle::actors
