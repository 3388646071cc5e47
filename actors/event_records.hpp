// events.jsonl: what happens to the run, a line each, for people and programs that watch it (docs/board.md).
// The coordinator decides nothing by them. No CAF.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/interfaces.hpp"
#include "actors/record_writer.hpp"
#include "actors/slow_trainers.hpp"
#include "protocol/coordinator.hpp"
#include "run/line_file.hpp"

namespace rekindle::actors {

// All writes are done later by the writer's thread. An event that cannot be written is lost with the process.
class EventRecords {
 public:
  EventRecords(RecordWriter& writer, std::uint64_t attempt);
  ~EventRecords() { writer_.flush(); }
  EventRecords(const EventRecords&) = delete;
  EventRecords& operator=(const EventRecords&) = delete;

  // `time_limit`: as in CoordinatorOptions.
  void begin(bool restarted, const std::string& time_limit);
  // Whatever the coordinator handled, after it: a new generation is seen here.
  void observe(const protocol::Coordinator& coordinator);
  void record(const protocol::RecordLoss& loss, std::uint64_t step);
  void record(const SlowTrainers::Change& change, std::uint64_t step);
  void record(const protocol::StepDone& done);
  void record(const protocol::Evaluated& evaluated);
  // The commit of a checkpoint begins: its size. committed() is its end.
  void commits(const protocol::Commit& commit);
  void committed(const CommitReply& reply);
  // The run has gone on from a checkpoint: all of it was read, and is correct.
  void record(const protocol::Sweep& sweep, std::uint64_t step);
  void record(const protocol::Rewind& rewind);
  void end(int exit_code, const std::string& why, std::uint64_t step);

 private:
  // From the moment at which a generation cannot go on to the first step of the next one.
  struct Interruption {
    std::chrono::milliseconds began{0};
    bool lost = false, joined = false;
    bool formed = false;  // the next generation runs
  };
  // As recorded last. No generation: of none of this coordinator.
  struct Known {
    protocol::GenerationId generation;
    std::vector<std::string> members;  // sorted
    std::uint64_t trainers = 0;        // in the last step; 0: no step yet
  };
  void append(const char* event, std::uint64_t step, nlohmann::json more);
  void record_generation(const protocol::Coordinator& coordinator);
  Interruption& interrupted();

  RecordWriter& writer_;
  run::LineFile file_;  // only used in the writer's thread
  const std::uint64_t attempt_;
  Known known_;
  std::optional<Interruption> interruption_;
  bool lost_ = false;  // a trainer was, in what the coordinator handles now
  std::uint64_t commit_bytes_ = 0;
};

}  // namespace rekindle::actors
