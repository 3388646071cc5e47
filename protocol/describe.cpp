#include "protocol/describe.hpp"

#include <sstream>

#include "base/text.hpp"

namespace rekindle::protocol {

namespace {

const char* words(PauseReason reason) {
  switch (reason) {
    case PauseReason::kAgreed:
      return "as agreed";
    case PauseReason::kFinished:
      return "finished";
    case PauseReason::kAborted:
      return "aborted";
    case PauseReason::kRestoreFailed:
      return "restore failed";
    case PauseReason::kUnreadable:
      return "checkpoint unreadable";
    case PauseReason::kUnsuitable:
      return "checkpoint unsuitable";
    case PauseReason::kExchangeFailed:
      return "exchange failed";
    case PauseReason::kDataAltered:
      return "data altered";
    case PauseReason::kSamplesUnusable:
      return "samples unusable";
    case PauseReason::kSamplesUnreadable:
      return "samples unreadable";
    case PauseReason::kNonFinite:
      return "loss is not finite";
    case PauseReason::kStatesDiffer:
      return "states differ";
    case PauseReason::kRefused:
      return "refused";
  }
  return "";
}

std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += str(text.empty() ? "" : ", ", rank);
  return text;
}

struct Describe {
  std::string operator()(const Start& m) const {
    std::string text = str("start ", to_text(m.generation), ": rank ", m.rank, " of ", m.members.size(),
                           ", step ", m.step, ", ");
    if (!m.sources.empty()) {
      text += str("held by rank ", list(m.sources));
    } else {
      text += m.restore.empty() ? "initial values" : str("restore ", m.restore);
    }
    return text + (m.saved ? ", saved" : "") + (m.evaluate ? ", evaluate" : "") +
           (m.stop ? ", save and stop" : "") + (m.without_nccl ? ", without NCCL" : "");
  }
  std::string operator()(const Stop& m) const { return str("stop ", to_text(m.generation)); }
  std::string operator()(const PauseForJoin& m) const {
    return str("pause for a join ", to_text(m.generation));
  }
  std::string operator()(const Save& m) const { return str("save ", to_text(m.generation)); }
  std::string operator()(const Abort& m) const { return str("abort ", to_text(m.generation)); }
  std::string operator()(const Quit&) const { return "quit"; }

  std::string operator()(const TrainerReady&) const { return "ready"; }
  std::string operator()(const StepDone& m) const {
    return str("step ", m.step, " of ", to_text(m.generation), " is done",
               m.voided ? ", and changed nothing" : "");
  }
  std::string operator()(const StepsDone& m) const {
    return str(m.steps.size(), " steps before ", to_text(m.generation), " were done");
  }
  std::string operator()(const Evaluated& m) const { return str("evaluated the state at step ", m.step); }
  std::string operator()(const ShardBegun& m) const {
    return str("begins its shard of step ", m.step, " of ", to_text(m.generation),
               m.parks ? ", then pauses" : "");
  }
  std::string operator()(const ShardWritten& m) const {
    return str("shard ", m.rank, " of step ", m.step, " of ", to_text(m.generation), " is written");
  }
  std::string operator()(const ShardFailed& m) const { return str("no shard of step ", m.step, ": ", m.why); }
  std::string operator()(const Paused& m) const {
    return str("paused in ", to_text(m.generation), ", ",
               m.holds ? str("holds step ", m.held_step) : "holds none", ": ", words(m.reason),
               m.peer < 0 ? "" : str(" with rank ", m.peer),
               m.differing.empty() ? "" : str(", rank ", list(m.differing)));
  }
  std::string operator()(const SampleSkipped& m) const { return str("left a sample out: ", m.why); }
  std::string operator()(const TrainerBeat&) const { return "beat"; }
  std::string operator()(const TrainerFailed& m) const { return str("failed: ", m.what); }
  std::string operator()(const TrainerExited& m) const {
    return str("exited, ", m.by_signal ? "signal " : "code ", m.code);
  }

  std::string operator()(const WorkerRegistered& e) const {
    return str("register, ", describe(e.registration));
  }
  std::string operator()(const WorkerBeatSeen&) const { return ""; }
  std::string operator()(const WorkerLost& e) const { return str("worker ", e.worker, " is lost: ", e.why); }
  std::string operator()(const TrainerReported& e) const { return describe(e.message); }
  std::string operator()(const StopRun& e) const { return str("stop asked for, exit code ", e.exit_code); }
  std::string operator()(const CommitDone& e) const {
    return e.error.empty() ? str(e.checkpoint, " is committed")
                           : str("step ", e.step, " could not be committed: ", e.error);
  }
  std::string operator()(const Swept&) const { return "old checkpoints are removed"; }
  std::string operator()(const Fenced& e) const { return str("term ", e.by_term, " exists"); }
  std::string operator()(const Tick&) const { return ""; }
};

}  // namespace

std::string describe(const ToTrainer& message) { return std::visit(Describe{}, message); }
std::string describe(const FromTrainer& message) { return std::visit(Describe{}, message); }
std::string describe(const Event& event) { return std::visit(Describe{}, event); }

std::string describe(const Registration& registration) {
  if (registration.trainers.empty()) return "no trainers";
  std::string text;
  for (const TrainerState& state : registration.trainers) {
    text += str(text.empty() ? "" : "; ", state.ready.trainer);
    if (!state.started) {
      text += " ready";
    } else if (state.parked) {
      text += str(" ", describe(*state.parked));
    } else {
      text += str(" in ", to_text(state.started->generation), " as rank ", state.started->rank, " of ",
                  state.started->members.size());
    }
    for (const ShardWritten& written : state.written) text += str(", ", describe(written));
  }
  return text;
}

std::string metric_text(const std::string& name, double value) {
  const bool is_share = name == "accuracy" || name.starts_with("top");
  std::ostringstream text;
  text.precision(4);
  text << name << " " << (is_share ? 100 * value : value) << (is_share ? " %" : "");
  return text.str();
}

}  // namespace rekindle::protocol
