// One run as its page shows it: what has been read of its directory, and the answers that are made of it. It
// reads storage, which may be slow: not for the thread that serves.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "board/story.hpp"
#include "board/totals.hpp"
#include "run/layout.hpp"
#include "view/history.hpp"
#include "view/run_events.hpp"
#include "view/run_logs.hpp"

namespace rekindle::board {

class RunPage {
 public:
  RunPage(std::filesystem::path directory, const std::string& name);

  // Reads what is new, at most for about a second. Whether all that was there has been read; also true after
  // an error, which the summary tells.
  bool read();
  // Server-sent events of what is new since the last call (docs/board.md); "": nothing is.
  std::string take_events();
  nlohmann::json summary() const;
  Result<nlohmann::json> curves(const view::CurveQuery& query) const { return history_.curves(query); }

  const Story& story() const { return story_; }
  // From `state` to `trainers` of api/summary.
  const nlohmann::json& status() const { return status_; }
  const Totals& totals() const { return totals_; }
  const std::string& name() const { return name_; }
  // Of the time since the first attempt began, the part in which steps were made that count. nullopt:
  // unknown.
  std::optional<double> training_ratio() const;

 private:
  void read_status();
  void read_events();
  void read_warnings();
  void read_steps();
  void read_step_times();
  std::vector<std::string> checkpoints() const;

  const std::filesystem::path directory_;
  const std::string name_;
  const run::Layout layout_;
  view::History history_;
  view::RunEvents run_events_;
  view::RunLogs logs_;
  Story story_;
  nlohmann::json status_ = nlohmann::json::object();
  std::deque<view::LogLine> warnings_;
  std::string problem_;
  nlohmann::json step_times_ = nlohmann::json::object();  // step_ms of api/summary
  std::uint64_t step_times_of_ = 0;                       // the newest step then
  Totals totals_;
  // For take_events().
  struct {
    nlohmann::json status = nlohmann::json::object();  // as sent last
    std::string steps;                                 // events of new values
    bool changed = false, began = false;
  } news_;
};

}  // namespace rekindle::board
