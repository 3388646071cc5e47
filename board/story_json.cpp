// The story as api/summary has it (docs/board.md).
#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "board/story.hpp"

namespace rekindle::board {
namespace {

constexpr std::size_t kMostSpansShown = 10000;  // of all lanes

nlohmann::json time_or_null(const std::optional<Milliseconds>& time) {
  return time ? nlohmann::json(utc_text(*time)) : nlohmann::json();
}

template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

const char* Story::text_of(State state) {
  switch (state) {
    case State::kTraining:
      return "training";
    case State::kWaiting:
      return "waiting";
    case State::kSlow:
      return "slow";
  }
  return "";
}

void Story::put_into(nlohmann::json& summary, const std::vector<std::string>& there) const {
  nlohmann::json lanes = nlohmann::json::array(), generations = lanes, attempts = lanes, checkpoints = lanes;
  for (const Lane& each : lanes_) {
    nlohmann::json spans = nlohmann::json::array();
    const std::size_t shown = std::max<std::size_t>(4, kMostSpansShown / lanes_.size());
    for (std::size_t i = each.spans.size() - std::min(shown, each.spans.size()); i < each.spans.size(); ++i) {
      const Span& span = each.spans[i];
      spans.push_back(
          {{"from", utc_text(span.from)}, {"to", time_or_null(span.to)}, {"state", text_of(span.state)}});
    }
    lanes.push_back({{"trainer", each.trainer},
                     {"worker", each.worker},
                     {"host", each.host},
                     {"device", each.device},
                     {"attempt", each.attempt},
                     {"spans", std::move(spans)},
                     {"end", or_null(each.end)}});
  }
  for (const GenerationLine& each : generations_)
    generations.push_back({{"generation", each.name},
                           {"attempt", each.attempt},
                           {"at", utc_text(each.at)},
                           {"step", each.step},
                           {"trainers", each.trainers},
                           {"ended", or_null(each.ended)}});
  for (const Attempt& each : attempts_)
    attempts.push_back({{"attempt", each.number},
                        {"began", utc_text(each.began)},
                        {"ended", time_or_null(each.ended)},
                        {"host", each.host},
                        {"job", each.job},
                        {"why", each.why},
                        {"pending_seconds", each.pending_seconds},
                        {"starting_seconds", or_null(each.starting_seconds)},
                        {"recovering_seconds", each.recovering_seconds},
                        {"first_step", or_null(each.first_step)},
                        {"last_step", each.last_step},
                        {"lost_steps", each.lost_steps}});
  for (const Saved& each : checkpoints_)
    checkpoints.push_back({{"name", each.name},
                           {"step", each.step},
                           {"at", utc_text(each.at)},
                           {"bytes", each.bytes},
                           {"verified", each.verified},
                           {"there", std::ranges::find(there, each.name) != there.end()}});
  if (!attempts_.empty()) summary["job"] = attempts_.back().job;
  summary["lanes"] = std::move(lanes);
  summary["generations"] = std::move(generations);
  summary["attempts"] = std::move(attempts);
  summary["checkpoints"] = std::move(checkpoints);
  summary["events"] = events_;
}

}  // namespace rekindle::board
