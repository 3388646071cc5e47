// Writes one line for each event.
#include <iomanip>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "protocol/describe.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

void World::log(const std::string& line) {
  *transcript_ << std::setw(8) << engine_.now() << "  " << line << "\n";
}

void World::log_event(CoordinatorProcess& coordinator, Phase before, const Event& event) {
  std::string text = describe(event);
  if (const auto* registered = std::get_if<WorkerRegistered>(&event))
    text = str(registered->registration.worker, ": ", text);
  if (const auto* report = std::get_if<TrainerReported>(&event)) text = str(report->worker, ": ", text);
  const Phase after = coordinator.machine()->phase();
  if (text.empty() && after == before) return;
  log(str(coordinator.name(), " [", protocol::to_text(before), "] receives ", text.empty() ? "a tick" : text,
          after == before ? "" : str(" -> ", protocol::to_text(after))));
}

}  // namespace rekindle::sim
