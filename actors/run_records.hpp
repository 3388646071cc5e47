// The coordinator's effects on files: metrics, attempts, status, checkpoints. No CAF, no decisions.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "actors/interfaces.hpp"
#include "base/background.hpp"
#include "protocol/coordinator.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::actors {

// What a coordinator has to know before it begins, from the run directory.
// A checkpoint of another run is an error (ExitCode::kConfig). `recorded`: what metrics.jsonl has, if wanted.
Result<protocol::CoordinatorConfig> survey(const run::Layout& layout, const protocol::Job& job,
                                           std::uint64_t term, run::Recorded* recorded = nullptr);

// Commits a checkpoint and removes old ones; blocks on storage. Looks for higher terms right before the
// commit.
CommitReply commit(const run::Layout& layout, const protocol::Job& job, const CommitOrder& order);
// The latter: a commit may wait for files long enough to be taken over, so it looks for higher terms again.
// Removes nothing where it cannot tell which one is the best. Fills in reply.committed.
Status sweep(const run::Layout& layout, const protocol::Job& job, const CommitOrder& order,
             CommitReply& reply);

// What attempts that were killed have left, when the checkpoint that the run went on from has been read
// whole.
SweepReply sweep_after_restore(const run::Layout& layout, const protocol::Job& job, const SweepOrder& order);

// Storage may be slow, and who decides must not wait for it: but for begin() and end(), everything is done
// later, in order.
class RunRecords {
 public:
  // `attempt` 0: the next one; otherwise a restarted coordinator goes on with that one.
  RunRecords(const run::Layout& layout, const protocol::Job& job, std::uint64_t term, std::uint64_t attempt);

  std::uint64_t attempt() const { return attempt_; }
  void begin(bool restarted, const run::Recorded& recorded = {});
  void end(int exit_code, const std::string& why, std::uint64_t step);
  // This coordinator has lost its supervisor; the attempt may go on under another one.
  void orphan(std::uint64_t step);
  void rewind(std::uint64_t step);
  // Returns what a person has to know, or "": before the first step of an attempt, which steps have no line
  // in metrics.jsonl and will not get one.
  std::string record(const protocol::StepDone& done);
  void record(const protocol::Evaluated& evaluated);
  void set_aside(const std::string& checkpoint);
  void abandon(const protocol::GenerationId& generation, std::uint64_t step);
  // status.json, for `rekindle status`. After show_end() show() writes nothing: the end's status stays.
  void show(const protocol::Coordinator& coordinator);
  void show_end(const protocol::Coordinator& coordinator, int exit_code);
  // At the end: which steps have no line, as far as nobody was told; "" if none.
  std::string missing_lines();
  // Returns when all of that is on storage, or has failed.
  void flush() { later_.flush(); }

 private:
  void append(const nlohmann::json& line);
  void write_status(const protocol::Coordinator& coordinator, const std::string& state);
  void record_attempt(const nlohmann::json& line);
  std::string take_missing();
  void warn_once(const Status& status);
  bool history() const;  // a newer term exists: nothing may be deleted any more

  run::Layout layout_;
  protocol::Job job_;
  run::MetricsFile metrics_;  // of the thread of later_, as attempts_
  run::LineFile attempts_;
  std::uint64_t term_, attempt_;
  protocol::StepDone last_;
  std::optional<std::uint64_t> newest_recorded_;  // step; nullopt: the run has no records to have gaps
  run::StepSet missing_;                          // older ones without a line
  bool tell_missing_ = false;                     // no worker can make up for what is missing
  nlohmann::json shown_trainers_ = nlohmann::json::array();
  bool end_shown_ = false;
  bool warned_ = false;  // of the thread of later_
  std::mutex shown_mutex_;
  std::string to_show_;  // the newest status; empty: written
  Background later_;     // last: it uses all of the above
};

}  // namespace rekindle::actors
