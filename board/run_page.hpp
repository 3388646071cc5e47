// One run as its page shows it: what has been read of its directory, and the answers that are made of it. It
// reads storage, which may be slow: not for the thread that serves.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "board/counts.hpp"
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

  // kSlice: a few megabytes, for who has other work, too. kPatient: at most for about a second.
  enum class Amount { kSlice, kPatient };
  // Reads what is new. Whether all that was there has been read; also true after an error, which the summary
  // tells.
  bool read(Amount amount = Amount::kPatient);
  // Whether all that was there has been read once. If another run has taken the place of this one: of that.
  bool complete() const { return seen_->complete; }
  // Server-sent events of what is new since the last call (docs/board.md); "": nothing is.
  std::string take_events();
  nlohmann::json summary() const;
  Result<nlohmann::json> curves(const view::CurveQuery& query) const { return seen_->history.curves(query); }

  // Of the run in this directory they never fall, also when its records are written anew and shorter.
  Counts counts() const { return at_least(seen_->counted, seen_->story.counts()); }
  const Totals& totals() const { return seen_->totals; }
  // From `state` to `trainers` of api/summary, and `problem`, `step_ms`, `training_ratio`.
  const nlohmann::json& status() const { return status_; }
  const std::string& name() const { return name_; }
  // Of the time since the first attempt began, the part in which steps were made that count. nullopt:
  // unknown.
  std::optional<double> training_ratio() const;

 private:
  // What has been read of the run, of which a new run in the same directory keeps nothing.
  struct Seen {
    explicit Seen(const run::Layout& layout);
    Seen(const Seen&) = delete;
    Seen& operator=(const Seen&) = delete;

    view::History history;
    view::RunEvents events;
    view::RunLogs logs;
    Story story;
    Counts counted;  // of the events before events.jsonl was written anew
    Totals totals;
    std::deque<view::LogLine> warnings;
    bool events_anew = false;  // the next event is the first one of a file that was written anew
    bool complete = false;
    bool failed = false;  // a file could not be read
  };

  bool read_slice();
  Result<bool> read_events();
  void begin_anew(const view::RunEvent& first);
  void read_status();
  void complete_status();
  void read_warnings();
  void read_steps();
  void read_step_times();
  std::vector<std::string> checkpoints() const;

  const std::filesystem::path directory_;
  const std::string name_;
  const run::Layout layout_;
  std::unique_ptr<Seen> seen_;
  nlohmann::json status_ = nlohmann::json::object();
  std::string problem_;
  bool behind_ = true;  // there is more to read, as when the run went back: then the steps are not known
  nlohmann::json step_times_ = nlohmann::json::object();  // step_ms of api/summary
  std::uint64_t step_times_of_ = 0;                       // the newest step then
  // For take_events().
  struct {
    nlohmann::json status = nlohmann::json::object();  // as sent last
    std::string steps;                                 // events of new values
    bool changed = false, lacks_values = false;
  } news_;
};

}  // namespace rekindle::board
