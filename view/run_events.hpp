// What has happened to a run, as a person would tell it: events.jsonl (docs/board.md).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "run/layout.hpp"
#include "view/line_tail.hpp"

namespace rekindle::view {

struct RunEvent {
  std::string kind, at;  // at: "2026-11-26T09:24:05.120Z"
  std::uint64_t attempt = 0, step = 0;
  std::string text;     // a line for people, safe to show
  nlohmann::json more;  // the whole line of the file

  // One object with all of this, for programs.
  nlohmann::json json(const run::Layout& layout) const;
};

class RunEvents {
 public:
  // Those from now on, or all that the records have.
  enum class From { kNow, kBeginning };
  RunEvents(const run::Layout& layout, From from);

  struct Some {
    std::vector<RunEvent> events;
    bool more = false;
    bool anew = false;  // the file was shortened or written anew, and these are its first ones
  };
  // The next ones of a file that may be long, as read_new().
  Result<Some> read_some();
  // Those since the last call, in the order in which they were written. Lines that cannot be read are left
  // out. After an error nothing is lost: the next call has it.
  Result<std::vector<RunEvent>> read_new();

 private:
  LineTail lines_;
  bool silent_;  // in the next call
};

}  // namespace rekindle::view
