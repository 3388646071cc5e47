#include "board/story.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"

namespace rekindle::board {
namespace {

constexpr std::uint64_t kNone = 0;
constexpr std::size_t kMostSpans = 200;  // of a lane; the oldest go
constexpr std::size_t kLongest = 500;    // of a text
constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 50;
constexpr double kSecond = 1000;  // milliseconds

std::string text_in(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? printable(found->get<std::string>().substr(0, kLongest))
                                                   : "";
}

std::uint64_t whole_in(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  const bool is_whole = found != line.end() && found->is_number_integer() && found->get<std::int64_t>() >= 0;
  // No sum of what a file may say overflows.
  return is_whole ? std::min(found->get<std::uint64_t>(), kMostSteps) : kNone;
}

// The newest `most` stay.
template <class T>
void push(std::deque<T>& list, T item, std::size_t most) {
  list.push_back(std::move(item));
  if (list.size() > most) list.pop_front();
}

// The clocks of two hosts may differ: the end is then before the begin.
double seconds_between(Milliseconds begin, Milliseconds end) {
  return static_cast<double>(std::max<Milliseconds>(0, end - begin)) / kSecond;
}

}  // namespace

void Story::Lane::enter(State state, Milliseconds at) {
  if (open() && spans.back().state == state) return;
  close(at);
  push(spans, Span{.from = at, .to = {}, .state = state}, kMostSpans);
}

void Story::Lane::waited(Milliseconds since) {
  while (spans.size() > 1 && spans.back().from >= since && spans[spans.size() - 2].to == spans.back().from) {
    spans.pop_back();
    spans.back().to.reset();
  }
  if (spans.back().from < since)
    enter(State::kWaiting, since);
  else
    spans.back().state = State::kWaiting;
}

void Story::Lane::close(Milliseconds at) {
  if (open()) spans.back().to = std::max(at, spans.back().from);
}

void Story::add(const view::RunEvent& event) {
  const auto at = parse_utc(event.at);
  if (!at) return;
  if (!began_) began_ = *at;
  const nlohmann::json& line = event.more;
  if (event.kind == "started") on_started(event, *at);
  if (event.kind == "generation") on_generation(line, event, *at);
  if (event.kind == "lost") on_lost(line, *at);
  if (event.kind == "recovered") on_recovered(line, *at);
  if (event.kind == "slow" || event.kind == "not_slow") {
    Lane* const found = lane(text_in(line, "trainer"));
    if (found != nullptr && found->open())
      found->enter(event.kind == "slow" ? State::kSlow : State::kTraining, *at);
  }
  if (event.kind == "saved") on_saved(line, event, *at);
  if (event.kind == "restored") {
    for (Saved& saved : checkpoints_)
      if (saved.name == text_in(line, "checkpoint")) saved.verified = true;
  }
  if (event.kind == "requeued") ++counts_.requeues;
  if (event.kind == "rewound") on_rewound(line, event);
  if (!attempts_.empty() && attempts_.back().number == event.attempt)
    attempts_.back().last_step = std::max(attempts_.back().last_step, std::min(event.step, kMostSteps));
  if (event.kind == "finished" || event.kind == "stopped" || event.kind == "gave_up") on_end(event.text, *at);
  newest_ = std::max(newest_.value_or(*at), *at);
  push(events_,
       nlohmann::json{{"event", event.kind},
                      {"at", event.at},
                      {"attempt", event.attempt},
                      {"step", event.step},
                      {"text", event.text}},
       kMostEvents);
}

void Story::on_started(const view::RunEvent& event, Milliseconds at) {
  ++counts_.attempts;
  counts_.time_limit = parse_utc(text_in(event.more, "time_limit"));
  // The attempt before may have been killed: then its last event is the last sign of it.
  const Milliseconds end = newest_.value_or(at);
  if (!attempts_.empty() && !attempts_.back().ended) {
    attempts_.back().ended = end;
    attempts_.back().why = "it ended without a report: was it killed?";
    end_generation("the attempt ended without a report");
  }
  close_all(end);
  Attempt attempt{.number = event.attempt,
                  .began = at,
                  .host = text_in(event.more, "host"),
                  .job = text_in(event.more, "job")};
  if (!attempts_.empty()) attempt.pending_seconds = seconds_between(*attempts_.back().ended, at);
  push(attempts_, std::move(attempt), kMostAttempts);
}

void Story::on_generation(const nlohmann::json& line, const view::RunEvent& event, Milliseconds at) {
  std::size_t joined = 0;
  std::set<std::string> named;
  for (const char* key : {"members", "joined"}) {
    const auto list = line.find(key);
    if (list == line.end() || !list->is_array()) continue;
    for (const nlohmann::json& trainer : *list) {
      if (!trainer.is_object()) continue;
      ++joined;
      const std::string name = text_in(trainer, "trainer");
      named.insert(name);
      Lane* known = lane(name);
      if (known == nullptr) {
        push(lanes_,
             Lane{.trainer = name,
                  .worker = text_in(trainer, "worker"),
                  .host = text_in(trainer, "host"),
                  .device = text_in(trainer, "device"),
                  .attempt = event.attempt},
             kMostLanes);
        known = &lanes_.back();
      }
      known->end.reset();
      known->enter(State::kTraining, at);
    }
  }
  if (const auto left = line.find("left"); left != line.end() && left->is_array()) {
    for (const nlohmann::json& name : *left) {
      Lane* const gone = name.is_string() ? lane(printable(name.get<std::string>())) : nullptr;
      if (gone != nullptr) gone->close(at);
    }
  }
  for (Lane& each : lanes_) {
    if (!each.open()) continue;
    // These are all: whoever is not among them has died with the coordinator before.
    if (line.contains("members") && !named.contains(each.trainer)) each.close(at);
    // Nobody waits any more. That they waited until a step was made is told by `recovered`.
    if (each.open() && each.spans.back().state == State::kWaiting) each.enter(State::kTraining, at);
  }
  on_first_generation(event, at);
  end_generation(joined > 0 ? counted(joined, "trainer") + " joined" : "its members paused");
  push(generations_,
       GenerationLine{.name = text_in(line, "generation"),
                      .attempt = event.attempt,
                      .step = event.step,
                      .trainers = whole_in(line, "trainers"),
                      .at = at},
       kMostGenerations);
}

void Story::on_first_generation(const view::RunEvent& event, Milliseconds at) {
  if (attempts_.empty() || attempts_.back().first_step) return;
  attempts_.back().first_step = std::min(event.step, kMostSteps);
  attempts_.back().starting_seconds = seconds_between(attempts_.back().began, at);
}

// Before its first generation, an attempt goes back because of how the last one that trained has ended.
void Story::on_rewound(const nlohmann::json& line, const view::RunEvent& event) {
  const std::uint64_t newest = whole_in(line, "newest"), step = std::min(event.step, newest);
  counts_.steps_lost = std::min(kMostSteps, counts_.steps_lost + newest - step);
  const auto trained = [](const Attempt& attempt) { return attempt.first_step.has_value(); };
  const auto found = std::find_if(attempts_.rbegin(), attempts_.rend(), trained);
  if (found == attempts_.rend()) return;
  found->lost_steps = std::min(kMostSteps, found->lost_steps + newest - step);
  found->last_step = std::max(found->last_step, newest);
}

void Story::on_lost(const nlohmann::json& line, Milliseconds at) {
  const std::string name = text_in(line, "trainer"), why = text_in(line, "why");
  Lane* const lost = lane(name);
  // A spare, for which nobody waits. With more trainers than lanes, a member may have none.
  if (lost == nullptr ? lanes_.size() < kMostLanes : !lost->open()) return;
  if (lost != nullptr) {
    lost->close(at);
    lost->end = why;
  }
  for (Lane& other : lanes_)
    if (other.open()) other.enter(State::kWaiting, at);
  end_generation(str("trainer ", name, " was lost: ", why));
}

// From the interruption to this step, nobody trained.
void Story::on_recovered(const nlohmann::json& line, Milliseconds at) {
  const std::string cause = text_in(line, "cause");
  const bool known = cause == "lost" || cause == "joined" || cause == "coordinator";
  ++counts_.recoveries[known ? cause : "other"];
  const auto seconds = line.find("seconds");
  if (seconds == line.end() || !seconds->is_number()) return;
  const double length = std::clamp(seconds->get<double>(), 0.0, 1e9);
  counts_.recovery_seconds.add(length);
  if (!attempts_.empty()) attempts_.back().recovering_seconds += length;
  const Milliseconds begin = at - std::llround(length * 1000);
  if (!generations_.empty() && generations_.back().at < begin &&
      generations_.back().name == text_in(line, "generation"))
    take_back_losses(begin);
  for (Lane& each : lanes_) {
    if (!each.open()) continue;
    each.waited(begin);
    each.enter(State::kTraining, at);
  }
}

// All connections were lost for a while, and the same trainers go on.
void Story::take_back_losses(Milliseconds since) {
  generations_.back().ended.reset();
  for (Lane& each : lanes_) {
    if (each.open() || !each.end || each.spans.empty() || each.spans.back().to < since) continue;
    each.end.reset();
    each.spans.back().to.reset();
  }
}

void Story::on_saved(const nlohmann::json& line, const view::RunEvent& event, Milliseconds at) {
  counts_.bytes_saved += whole_in(line, "bytes");
  counts_.saved_at = at;
  push(checkpoints_,
       Saved{.name = text_in(line, "checkpoint"),
             .step = event.step,
             .bytes = whole_in(line, "bytes"),
             .at = at},
       kMostCheckpoints);
}

void Story::on_end(const std::string& why, Milliseconds at) {
  close_all(at);
  end_generation(why);
  if (attempts_.empty() || attempts_.back().ended) return;
  attempts_.back().ended = at;
  attempts_.back().why = why;
}

void Story::close_all(Milliseconds at) {
  for (Lane& each : lanes_) each.close(at);
}

void Story::end_generation(const std::string& why) {
  if (!generations_.empty() && !generations_.back().ended) generations_.back().ended = why;
}

Story::Lane* Story::lane(const std::string& trainer) {
  const auto found = std::ranges::find(lanes_, trainer, &Lane::trainer);
  return found == lanes_.end() ? nullptr : &*found;
}

}  // namespace rekindle::board
