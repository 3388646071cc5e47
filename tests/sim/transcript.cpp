// One line for each thing that happens, for people.
#include <iomanip>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {

const char* to_text(ParkReason reason) {
  constexpr const char* kNames[] = {
      "cut",        "finished",      "aborted", "restore failed", "exchange failed",
      "not finite", "states differ", "refused"};
  return kNames[static_cast<int>(reason)];
}

std::string describe_start(const Start& start) {
  std::string text = str("start ", to_text(start.generation), " rank ", start.rank, " of ",
                         start.members.size(), " step ", start.step, " sources");
  for (const int source : start.sources) text += str(" ", source);
  if (!start.restore.empty()) text += str(" restore ", start.restore);
  return text + (start.saved ? " saved" : "") + (start.evaluate ? " evaluate" : "") +
         (start.stop ? " stop" : "");
}

std::string describe_event(const Event& event) {
  if (const auto* e = std::get_if<WorkerRegistered>(&event)) {
    std::string text = str("registered ", e->registration.worker, " with");
    for (const TrainerState& state : e->registration.trainers) {
      text += str(" ", state.ready.trainer);
      if (state.started) text += str(" in ", to_text(state.started->generation));
      if (state.parked)
        text += str(" parked at ", to_text(state.parked->generation), " ", state.parked->held_step);
    }
    return text;
  }
  if (const auto* e = std::get_if<WorkerLost>(&event)) return str("lost ", e->worker, ": ", e->why);
  if (const auto* e = std::get_if<TrainerSaid>(&event)) return describe(e->message);
  if (const auto* e = std::get_if<StopAsked>(&event)) return str("stop asked, exit code ", e->exit_code);
  if (const auto* e = std::get_if<CommitDone>(&event))
    return str("commit done ", e->checkpoint, " ", e->error);
  if (const auto* e = std::get_if<Fenced>(&event)) return str("fenced by term ", e->by_term);
  return "";
}

}  // namespace

std::string describe(const ToTrainer& message) {
  if (const auto* start = std::get_if<Start>(&message)) return describe_start(*start);
  if (const auto* stop = std::get_if<Stop>(&message)) return str("stop ", to_text(stop->generation));
  if (const auto* cut = std::get_if<Cut>(&message)) return str("cut ", to_text(cut->generation));
  if (const auto* abort = std::get_if<Abort>(&message)) return str("abort ", to_text(abort->generation));
  return "quit";
}

std::string describe(const FromTrainer& message) {
  if (const auto* m = std::get_if<TrainerReady>(&message)) return str("ready ", m->trainer);
  if (const auto* m = std::get_if<StepDone>(&message))
    return str("step done ", to_text(m->generation), " ", m->step);
  if (const auto* m = std::get_if<Evaluated>(&message)) return str("evaluated ", m->step);
  if (const auto* m = std::get_if<ShardWritten>(&message))
    return str("shard ", m->rank, " of ", to_text(m->generation), " step ", m->step, " by ", m->trainer);
  if (const auto* m = std::get_if<ShardFailed>(&message))
    return str("no shard of step ", m->step, " by ", m->trainer);
  if (const auto* m = std::get_if<Parked>(&message))
    return str("parked ", m->trainer, " ", to_text(m->generation),
               m->holds ? str(" holds ", m->held_step) : " holds none", " (", to_text(m->reason), ", peer ",
               m->peer, ")");
  if (const auto* m = std::get_if<TrainerFailed>(&message)) return str("failed ", m->trainer);
  if (const auto* m = std::get_if<TrainerExited>(&message))
    return str("exited ", m->trainer, m->by_signal ? " signal " : " code ", m->code);
  return "beat";
}

void World::tell(const std::string& line) {
  *transcript_ << std::setw(8) << engine_.now() << "  " << line << "\n";
}

void World::tell_event(CoordinatorProcess& coordinator, Phase before, const Event& event) {
  const std::string text = describe_event(event);
  const Phase after = coordinator.machine()->phase();
  if (text.empty() && after == before) return;
  tell(str(coordinator.name(), " [", protocol::to_text(before), "] hears ", text.empty() ? "a tick" : text,
           after == before ? "" : str(" -> ", protocol::to_text(after))));
}

}  // namespace rekindle::sim
