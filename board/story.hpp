// What the page shows of a run's past: its events, told as lanes of trainers, generations, attempts and
// checkpoints. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "board/counts.hpp"
#include "view/run_events.hpp"

namespace rekindle::board {

class Story {
 public:
  static constexpr std::size_t kMostLanes = 500, kMostGenerations = 1000, kMostAttempts = 1000,
                               kMostCheckpoints = 500, kMostEvents = 300;

  // The next event. The newest of each list are kept.
  void add(const view::RunEvent& event);

  // job, lanes, generations, attempts, checkpoints and events of api/summary (docs/board.md). `there`: the
  // names of the checkpoints that exist.
  void put_into(nlohmann::json& summary, const std::vector<std::string>& there) const;
  std::optional<Milliseconds> began() const { return began_; }  // the first event

  const Counts& counts() const { return counts_; }

 private:
  enum class State { kTraining, kWaiting, kSlow };
  static const char* text_of(State state);
  struct Span {
    Milliseconds from = 0;
    std::optional<Milliseconds> to;
    State state = State::kTraining;
  };
  struct Lane {
    std::string trainer, worker, host, device;
    std::uint64_t attempt = 0;
    std::deque<Span> spans = {};
    std::optional<std::string> end = {};  // why it was lost
    bool open() const { return !spans.empty() && !spans.back().to; }
    void enter(State state, Milliseconds at);
    void close(Milliseconds at);
    void waited(Milliseconds since);  // it is open
  };
  struct GenerationLine {
    std::string name;
    std::uint64_t attempt = 0, step = 0, trainers = 0;
    Milliseconds at = 0;
    std::optional<std::string> ended = {};
  };
  struct Attempt {
    std::uint64_t number = 0;
    Milliseconds began = 0;
    std::optional<Milliseconds> ended = {};
    std::string host, job, why = {};
    double pending_seconds = 0;                   // before it, since the attempt before ended
    std::optional<double> starting_seconds = {};  // until trainers worked together
    double recovering_seconds = 0;
    std::optional<std::uint64_t> first_step = {};  // the one that it went on from
    std::uint64_t last_step = 0;                   // that is known of its events
    std::uint64_t lost_steps = 0;                  // those that it or the next attempt made again
  };
  struct Saved {
    std::string name;
    std::uint64_t step = 0, bytes = 0;
    Milliseconds at = 0;
    bool verified = false;
  };

  void on_started(const view::RunEvent& event, Milliseconds at);
  void on_generation(const nlohmann::json& line, const view::RunEvent& event, Milliseconds at);
  void on_first_generation(const view::RunEvent& event, Milliseconds at);
  void on_rewound(const nlohmann::json& line, const view::RunEvent& event);
  void on_lost(const nlohmann::json& line, Milliseconds at);
  void on_recovered(const nlohmann::json& line, Milliseconds at);
  void on_saved(const nlohmann::json& line, const view::RunEvent& event, Milliseconds at);
  void on_end(const std::string& why, Milliseconds at);
  void take_back_losses(Milliseconds since);
  void close_all(Milliseconds at);
  void end_generation(const std::string& why);
  Lane* lane(const std::string& trainer);

  std::optional<Milliseconds> began_, newest_;
  std::deque<Lane> lanes_;
  std::deque<GenerationLine> generations_;
  std::deque<Attempt> attempts_;
  std::deque<Saved> checkpoints_;
  std::deque<nlohmann::json> events_;
  Counts counts_;
};

}  // namespace rekindle::board
