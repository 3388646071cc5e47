// One line for each thing that happens, for people.
#include <iomanip>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "protocol/describe.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

void World::tell(const std::string& line) {
  *transcript_ << std::setw(8) << engine_.now() << "  " << line << "\n";
}

void World::tell_event(CoordinatorProcess& coordinator, Phase before, const Event& event) {
  std::string text = describe(event);
  if (const auto* registered = std::get_if<WorkerRegistered>(&event))
    text = str(registered->registration.worker, ": ", text);
  if (const auto* said = std::get_if<TrainerSaid>(&event)) text = str(said->worker, ": ", text);
  const Phase after = coordinator.machine()->phase();
  if (text.empty() && after == before) return;
  tell(str(coordinator.name(), " [", protocol::to_text(before), "] hears ", text.empty() ? "a tick" : text,
           after == before ? "" : str(" -> ", protocol::to_text(after))));
}

}  // namespace rekindle::sim
