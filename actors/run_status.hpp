// status.json, for `rekindle status`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/record_parts.hpp"
#include "actors/record_writer.hpp"
#include "actors/slow_trainers.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::actors {

class RunStatus {
 public:
  RunStatus(RecordWriter& writer, std::uint64_t steps, std::uint64_t attempt);
  ~RunStatus() { writer_.flush(); }
  RunStatus(const RunStatus&) = delete;
  RunStatus& operator=(const RunStatus&) = delete;

  // After show_end(), show() writes nothing.
  void show(const protocol::Coordinator& coordinator, const LastStep& last);
  // Of the trainers, as they are shown from now on. The trainers that became slow, or are no longer.
  std::vector<SlowTrainers::Change> look_for_slow(const protocol::Coordinator& coordinator) {
    return slow_.look(coordinator.trainers());
  }
  // `line`: the last line of the run's output.
  void show_end(const protocol::Coordinator& coordinator, const LastStep& last, int exit_code,
                const std::string& line);

 private:
  void write(const protocol::Coordinator& coordinator, const LastStep& last, const std::string& state);

  RecordWriter& writer_;
  const std::uint64_t steps_, attempt_;
  nlohmann::json trainers_ = nlohmann::json::array();
  bool ended_ = false;  // the attempt's last status is written: no later status replaces it
  std::string end_;
  SlowTrainers slow_;
  NewestText text_;
};

}  // namespace rekindle::actors
