#include "coverage.hpp"

#include <algorithm>
#include <iomanip>
#include <iterator>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/text.hpp"
#include "protocol/describe.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {

// Extracts "Swept" from "... [with T = rekindle::protocol::Swept; ...]". g++ and clang use the same format.
template <class T>
std::string type_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  return std::string(text.substr(text.rfind(':') + 1));
}

template <class Variant, std::size_t... I>
std::vector<std::string> names_of(std::index_sequence<I...>) {
  return {type_name<std::variant_alternative_t<I, Variant>>()...};
}
// The names of the alternatives, in order.
template <class Variant>
std::vector<std::string> names_of() {
  return names_of<Variant>(std::make_index_sequence<std::variant_size_v<Variant>>());
}

template <class T, class Variant, std::size_t I = 0>
constexpr std::size_t index_in() {
  if constexpr (std::is_same_v<T, std::variant_alternative_t<I, Variant>>)
    return I;
  else
    return index_in<T, Variant, I + 1>();
}

// Reports of trainers are counted by the type of their message.
constexpr std::size_t kReport = index_in<TrainerReported, Event>();

std::vector<std::string> coordinator_events() {
  std::vector<std::string> names = names_of<Event>();
  const std::vector<std::string> report = names_of<FromTrainer>();
  names.erase(names.begin() + kReport);
  names.insert(names.end(), report.begin(), report.end());
  return names;
}

std::size_t row_of(const Event& event) {
  if (const auto* report = std::get_if<TrainerReported>(&event))
    return std::variant_size_v<Event> - 1 + report->message.index();
  return event.index() - (event.index() > kReport ? 1 : 0);
}

template <class Enum>
std::vector<std::string> texts_up_to(Enum last) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(last); ++i) names.emplace_back(to_text(static_cast<Enum>(i)));
  return names;
}

template <class T>
constexpr std::size_t kWorkerEvent = index_in<T, WorkerEvent>();
template <class T>
constexpr std::size_t kSent = index_in<T, ToTrainer>();

}  // namespace

Coverage::Table::Table(std::vector<std::string> state_names, std::vector<std::string> event_names)
    : states(std::move(state_names)),
      events(std::move(event_names)),
      counts(events.size(), std::vector<std::uint64_t>(states.size())) {}

Coverage::Coverage()
    : coordinator_(texts_up_to(Phase::kEnded), coordinator_events()),
      worker_({"alone", "connecting", "registering", "registered"}, names_of<WorkerEvent>()),
      trainer_(texts_up_to(TrainerPhase::kWriting), names_of<ToTrainer>()) {
  const std::size_t beat = std::variant_size_v<Event> - 1 + index_in<TrainerBeat, FromTrainer>();
  for (std::size_t phase = 0; phase < coordinator_.states.size(); ++phase)
    coordinator_.cannot[{phase, beat}] = "workers put beats together";

  constexpr std::size_t kAlone = 0, kRegistering = 2, kRegistered = 3;
  const std::size_t of_a_connection[] = {kWorkerEvent<Welcomed>, kWorkerEvent<RegisterAgain>,
                                         kWorkerEvent<OrderedForTrainer>, kWorkerEvent<KillTrainer>,
                                         kWorkerEvent<Dismiss>};
  worker_.cannot[{kAlone, kWorkerEvent<Connected>}] = "it has not asked to be connected";
  for (const std::size_t event : of_a_connection) {
    worker_.cannot[{kAlone, event}] = "there is no connection";
    if (event != kWorkerEvent<Welcomed> && event != kWorkerEvent<RegisterAgain>)
      worker_.cannot[{kRegistering, event}] =
          "orders come after the welcome, and the older connection has been left";
  }
  worker_.cannot[{kRegistering, kWorkerEvent<Connected>}] = "it is connected";
  worker_.cannot[{kRegistered, kWorkerEvent<Connected>}] = "it is connected";
  worker_.cannot[{kRegistered, kWorkerEvent<Welcomed>}] = "asked to register again, it waits for the answer";

  for (std::size_t phase = 0; phase < trainer_.states.size(); ++phase) {
    if (phase == static_cast<std::size_t>(TrainerPhase::kIdle)) continue;
    trainer_.cannot[{phase, kSent<Start>}] = "a generation is made of trainers that have paused";
    trainer_.cannot[{phase, kSent<Quit>}] = "the run ends when its trainers have paused";
  }
  for (const std::size_t sent : {kSent<Stop>, kSent<PauseForJoin>, kSent<Abort>, kSent<Save>})
    trainer_.cannot[{static_cast<std::size_t>(TrainerPhase::kStarting), sent}] = "it is not known yet";
}

void Coverage::coordinator(Phase phase, const Event& event) {
  ++coordinator_.counts[row_of(event)][static_cast<std::size_t>(phase)];
}

void Coverage::worker(int state, const WorkerEvent& event) {
  ++worker_.counts[event.index()][static_cast<std::size_t>(state)];
}

void Coverage::trainer(TrainerPhase phase, const ToTrainer& message) {
  ++trainer_.counts[message.index()][static_cast<std::size_t>(phase)];
}

std::uint64_t Coverage::coordinator_count(const std::string& state, const std::string& event) const {
  const auto place = [](const std::vector<std::string>& names, const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  return coordinator_.counts.at(place(coordinator_.events, event)).at(place(coordinator_.states, state));
}

Coverage::Summary Coverage::Table::summary() const {
  constexpr int kNameWidth = 18, kWidth = 12;
  Summary summary;
  std::ostringstream text;
  text << "  " << std::setw(kNameWidth) << "";
  for (const std::string& state : states) text << std::setw(kWidth) << state;
  text << "\n";
  for (std::size_t event = 0; event < events.size(); ++event) {
    text << "  " << std::left << std::setw(kNameWidth) << events[event] << std::right;
    for (std::size_t state = 0; state < states.size(); ++state) {
      const std::uint64_t count = counts[event][state];
      const bool possible = !cannot.contains({state, event});
      text << std::setw(kWidth) << (possible || count > 0 ? std::to_string(count) : "-");
      if (!possible && count > 0) summary.wrong += str(" (", states[state], ", ", events[event], ")");
      if (!possible) continue;
      ++summary.possible;
      if (count > 0)
        ++summary.reached;
      else
        summary.missing += str(" (", states[state], ", ", events[event], ")");
    }
    text << "\n";
  }
  summary.table = text.str();
  return summary;
}

void Coverage::Summary::add(const Summary& other) {
  possible += other.possible;
  reached += other.reached;
  table += other.table;
  missing += other.missing;
  wrong += other.wrong;
}

Coverage::Summary Coverage::summary() const {
  Summary all = coordinator_.summary();
  all.add(worker_.summary());
  all.add(trainer_.summary());
  return all;
}

}  // namespace rekindle::sim
