#include "coverage.hpp"

#include <iomanip>
#include <sstream>

namespace rekindle::sim {

using namespace protocol;

namespace {

constexpr std::array kEventNames = {"registered", "beat seen",  "worker lost", "stop asked", "commit done",
                                    "fenced",     "tick",       "ready",       "step done",  "evaluated",
                                    "shard",      "no shard",   "parked",      "beat",       "failed",
                                    "exited",     "steps done", "begun"};
constexpr std::array kStateNames = {"alone", "connecting", "registering", "registered"};
constexpr std::array kWorkerEventNames = {"term seen",    "connected",     "disconnected", "welcomed",
                                          "asked again",  "for trainer",   "kill order",   "dismissed",
                                          "trainer said", "trainer ended", "tick"};

struct Impossible {
  std::size_t state, event;
  const char* reason;
};

// (phase, event)
constexpr Impossible kImpossible[] = {
    {0, 13, "workers put beats together"}, {1, 13, "workers put beats together"},
    {2, 13, "workers put beats together"}, {3, 13, "workers put beats together"},
    {4, 13, "workers put beats together"}, {5, 13, "workers put beats together"},
};
// (state, event)
constexpr Impossible kImpossibleForWorkers[] = {
    {0, 1, "it has not asked to be connected"},
    {0, 2, "it knows already"},
    {0, 3, "there is no connection"},
    {0, 4, "there is no connection"},
    {0, 5, "there is no connection"},
    {0, 6, "there is no connection"},
    {0, 7, "there is no connection"},
    {2, 1, "it is connected"},
    {2, 4, "orders come after the welcome, and the older connection has been left"},
    {2, 5, "orders come after the welcome, and the older connection has been left"},
    {2, 6, "orders come after the welcome, and the older connection has been left"},
    {2, 7, "orders come after the welcome, and the older connection has been left"},
    {3, 1, "it is connected"},
    {3, 3, "asked to register again, it waits for the answer"},
};

template <std::size_t N>
bool listed(const Impossible (&list)[N], std::size_t state, std::size_t event) {
  for (const Impossible& pair : list) {
    if (pair.state == state && pair.event == event) return true;
  }
  return false;
}

template <class Table, class Names, class Events, std::size_t N>
Coverage::Summary summarize(const Table& table, const Names& states, const Events& events,
                            const Impossible (&impossible)[N]) {
  Coverage::Summary summary;
  std::ostringstream text;
  text << "  " << std::setw(14) << "";
  for (const char* state : states) text << std::setw(12) << state;
  text << "\n";
  for (std::size_t event = 0; event < events.size(); ++event) {
    text << "  " << std::left << std::setw(14) << events[event] << std::right;
    for (std::size_t state = 0; state < states.size(); ++state) {
      const std::uint64_t count = table[state][event];
      const bool possible = !listed(impossible, state, event);
      text << std::setw(12) << (possible || count > 0 ? std::to_string(count) : "-");
      if (!possible) continue;
      ++summary.possible;
      if (count > 0)
        ++summary.reached;
      else
        summary.missing += std::string(" (") + states[state] + ", " + events[event] + ")";
    }
    text << "\n";
  }
  summary.table = text.str();
  return summary;
}

}  // namespace

void Coverage::coordinator(Phase phase, const Event& event) {
  std::size_t kind = event.index();
  if (const auto* said = std::get_if<TrainerSaid>(&event)) {
    kind = 7 + said->message.index();
  } else if (kind > 3) {
    --kind;  // TrainerSaid is told apart by what was said
  }
  ++coordinator_[static_cast<std::size_t>(phase)][kind];
}

Coverage::Summary Coverage::coordinator_summary() const {
  const std::array phases = {"gathering", "adopting", "running", "parking", "quitting", "ended"};
  return summarize(coordinator_, phases, kEventNames, kImpossible);
}

Coverage::Summary Coverage::worker_summary() const {
  return summarize(worker_, kStateNames, kWorkerEventNames, kImpossibleForWorkers);
}

}  // namespace rekindle::sim
