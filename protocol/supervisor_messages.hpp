// The messages between the coordinator and its supervisor.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

namespace rekindle::protocol {

using Time = std::chrono::milliseconds;  // of a process's monotonic clock

// The exit code of a coordinator that replaces another one and cannot open its port.
inline constexpr int kCannotListen = 4;

struct CoordinatorUp {
  std::uint64_t term = 0, attempt = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CoordinatorUp, term, attempt)

enum class Activity {
  kForming,   // trainers start, check their arithmetic or wait for others
  kTraining,  // a generation copies or restores the state, or computes steps
  kEvaluating,
};
NLOHMANN_JSON_SERIALIZE_ENUM(Activity, {{Activity::kForming, "forming"},
                                        {Activity::kTraining, "training"},
                                        {Activity::kEvaluating, "evaluating"}})

// Sent once a second: the coordinator is alive and processes its queue.
struct CoordinatorBeat {
  std::uint64_t term = 0;
  Activity activity = Activity::kForming;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CoordinatorBeat, term, activity)

// A line for the terminal of the run.
struct Say {
  std::string line;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Say, line)

struct Progress {
  std::uint64_t step = 0, steps = 0, epoch = 0;
  double loss = 0, images_per_second = 0, seconds_left = 0;
  int trainers = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Progress, step, steps, epoch, loss, images_per_second, seconds_left,
                                   trainers)

// The result of the run. Sent when the result is decided and the trainers are about to exit, and again when
// the run is over.
struct Ended {
  int exit_code = 0;
  std::string line;  // the last line of the output; an error message if the exit code is an error
  bool over = true;
  bool may_pass = false;  // an error that a later attempt may not meet
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ended, exit_code, line, over, may_pass)

using ToSupervisor = std::variant<CoordinatorUp, CoordinatorBeat, Say, Progress, Ended>;

// A request to stop, from a signal, from `rekindle stop` or from Slurm: the supervisor's message, and an
// event of the coordinator.
struct StopRun {
  int exit_code = 75;
  std::string why;  // "SIGUSR1"
  // Limit until the state must be durable; a step that would take longer is dropped. 0: no limit.
  Time within{0};
};
inline void to_json(nlohmann::json& json, const StopRun& stop) {
  json = {{"exit_code", stop.exit_code}, {"why", stop.why}, {"within_ms", stop.within.count()}};
}
inline void from_json(const nlohmann::json& json, StopRun& stop) {
  json.at("exit_code").get_to(stop.exit_code);
  json.at("why").get_to(stop.why);
  stop.within = Time(json.at("within_ms").get<std::int64_t>());
}

// The supervisor saw that a worker process ended.
struct WorkerDied {
  std::string worker;
  bool by_signal = false;
  int code = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerDied, worker, by_signal, code)

using ToCoordinator = std::variant<StopRun, WorkerDied>;

}  // namespace rekindle::protocol
