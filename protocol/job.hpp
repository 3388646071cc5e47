// The job of a run: the options of the command line with all defaults resolved. Written to run.toml.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "task/options.hpp"

namespace rekindle::protocol {

// The options of the learning rate from step `since` on.
struct Rates {
  std::uint64_t since = 0;
  double lr = 0.001;
  std::uint64_t lr_step = 30;  // epochs
  double lr_gamma = 0.1;
  friend bool operator==(const Rates&, const Rates&) = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Rates, since, lr, lr_step, lr_gamma)

struct Job {
  task::Options task;  // what is trained
  std::uint64_t batch_size = 128;
  std::uint64_t micro_batches = 16;  // equal parts of the batch, a power of two
  std::uint64_t steps = 0;           // total optimizer steps of the run, from --steps or --epochs
  std::uint64_t epochs = 0;          // value of --epochs; 0: --steps was given
  std::uint64_t seed = 1;
  std::string optimizer = "sgd";  // optim/optimizer.hpp, with the options of torch.optim
  double lr = 0.001, momentum = 0.9, weight_decay = 0.0005, lr_gamma = 0.1;
  std::uint64_t lr_step = 30;  // epochs
  double dampening = 0, beta1 = 0.9, beta2 = 0.999, alpha = 0.99, rho = 0.9;
  double eps = -1;  // below 0: the optimizer's own
  bool nesterov = false;
  std::string schedule = "step";  // optim/schedule.hpp
  std::string milestones;         // of multi-step: epochs, as in "30,60,80"
  std::uint64_t warmup_steps = 0;
  std::uint64_t schedule_steps = 0;  // length of the schedule: the run's steps at its first start
  double clip_norm = 0;              // limit of the gradient's global norm; 0: none
  std::string no_decay, lr_scale;    // optim/groups.hpp
  double ema = 0;                    // decay of the moving average; 0: none
  std::string precision = "fp32";
  std::string device = "cpu";  // "cpu", "cuda" or "twin" (docs/development.md)
  std::uint64_t threads = 1, loader_threads = 2;
  std::uint64_t trainers_per_worker = 1;
  // What workers and trainers run in (app/container.hpp); empty: no container.
  std::string container, container_runtime = "apptainer", container_mounts;
  std::string exchange = "auto";       // one of exchanges(): "auto", "nccl", "shm" or "tcp"
  bool exchange_integrity = true;      // TCP: every frame has an authentication tag
  std::uint64_t checkpoint_every = 0;  // in steps; 0: only by time, at stops and at the end
  std::uint64_t checkpoint_interval_ms = 600000, keep = 3;
  bool keep_best = false;            // write a checkpoint at each evaluation, and keep the best one
  std::string best_metric;           // which one is the best (run/records.hpp)
  std::uint64_t evaluate_every = 0;  // in steps; 0: after each epoch
  bool strict = false;
  // "local" or "slurm": which system restarts the run if its first process dies.
  std::string launched_by = "local";
  // Limits of the fault tolerance. They may change at every start.
  std::uint64_t min_trainers = 1;  // with fewer trainers, training waits, at most the gather time
  std::uint64_t gather_time_ms = 300000;
  std::uint64_t lost_after_ms = 5000;  // limit without a heartbeat
  // Limit without progress, for a trainer that does not wait for a peer.
  std::uint64_t hang_after_ms = 600000;
  std::uint64_t data_wait_ms = 600000;  // how long a trainer waits for samples that it cannot read
  std::uint64_t hash_every = 100;    // steps between two comparisons of the replicas' state hashes; 0: none
  std::uint64_t log_interval = 0;    // steps between two lines of progress; 0: by time
  std::uint64_t stop_within_ms = 0;  // a stop drops a step that would take longer; 0: no limit
  // Where coordinator and trainers listen (base/network.hpp). Empty: only this machine, any port.
  std::string interface, port_range;
  // Read from the data set.
  std::uint64_t train_samples = 0, test_samples = 0;
  // `init`: hash of the initial tensors in init.safetensors; empty: the model draws its initial values.
  // `init_source`: hash of the path from which these tensors were read.
  std::string init, init_source;
  // The first step with the current options of the learning rate; greater than 0 after --change-lr.
  std::uint64_t rates_since = 0;
  // Earlier options, in order. A step that is repeated uses the options of its time.
  std::vector<Rates> earlier_rates;
  // The CPU capability of the first attempt. The CPU libraries of all attempts are limited to this value.
  std::string cpu_capability;
  // With bf16: the instructions for bfloat16 of the first attempt's CPU (app/cpu.hpp); empty: none.
  std::string bf16_isa;
  // The environment variables of the numeric libraries, "NAME=value", recorded by the first attempt.
  std::vector<std::string> environment;
};
// In two parts, because the macros of nlohmann_json take at most 63 fields. The fields of `task` are beside
// the others.
// clang-format off
#define REKINDLE_JOB_FIELDS_1(DO) NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(DO, \
  batch_size, micro_batches, steps, epochs, seed, optimizer, lr, momentum, weight_decay, lr_gamma, \
  lr_step, dampening, beta1, beta2, alpha, rho, eps, nesterov, schedule, milestones, warmup_steps, \
  schedule_steps, clip_norm, no_decay, lr_scale, ema, precision, device, threads))
#define REKINDLE_JOB_FIELDS_2(DO) NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(DO, loader_threads, \
  trainers_per_worker, container, container_runtime, container_mounts, exchange, exchange_integrity, checkpoint_every, checkpoint_interval_ms, keep, \
  keep_best, best_metric, evaluate_every, strict, launched_by, min_trainers, gather_time_ms, lost_after_ms, hang_after_ms, \
  data_wait_ms, hash_every, log_interval, stop_within_ms, interface, port_range, train_samples, test_samples, init, \
  init_source, rates_since, earlier_rates, cpu_capability, bf16_isa, environment))
// clang-format on
inline void to_json(nlohmann::json& nlohmann_json_j, const Job& nlohmann_json_t) {
  REKINDLE_JOB_FIELDS_1(NLOHMANN_JSON_TO)
  REKINDLE_JOB_FIELDS_2(NLOHMANN_JSON_TO)
  to_json(nlohmann_json_j, nlohmann_json_t.task);
}
inline void from_json(const nlohmann::json& nlohmann_json_j, Job& nlohmann_json_t) {
  REKINDLE_JOB_FIELDS_1(NLOHMANN_JSON_FROM)
  REKINDLE_JOB_FIELDS_2(NLOHMANN_JSON_FROM)
  from_json(nlohmann_json_j, nlohmann_json_t.task);
}
#undef REKINDLE_JOB_FIELDS_1
#undef REKINDLE_JOB_FIELDS_2

inline bool is_script(const Job& job) { return task::is_script(job.task); }
inline bool launched_by_slurm(const Job& job) { return job.launched_by == "slurm"; }

// The options that determine the result of a run. A resume with another identity is refused.
nlohmann::json identity_of(const Job& job);

// The keys of an identity that --change-lr may change.
inline constexpr const char* kRateKeys[] = {"lr", "lr_step", "lr_gamma", "rates_since", "earlier_rates"};

// Copies these keys from `from` to `identity`; a key that `from` lacks is removed.
void take_rates(nlohmann::json& identity, const nlohmann::json& from);

// The options of the learning rate for the steps up to `step`, in order, read from an identity.
std::vector<Rates> rates_until(const nlohmann::json& identity, std::uint64_t step);

// The first key with a mismatch between two identities, or "".
std::string first_difference(const nlohmann::json& a, const nlohmann::json& b);

// The largest power of two, up to 32, that divides the batch with at least 8 samples in each micro-batch; 1
// if there is none. The result depends only on the batch, so that a command gives the same bits on every
// machine.
std::uint64_t default_micro_batches(std::uint64_t batch_size);

// Schedules: pure functions of the step.
std::uint64_t epoch_of(const Job& job, std::uint64_t step);  // the epoch of the first sample of the step
std::uint64_t steps_for_epochs(const Job& job, std::uint64_t epochs);  // ceil(E * N / batch)
// Whether the state after `step` updates is evaluated: at the end of the run, and every evaluate_every steps
// or after each epoch.
bool evaluation_due(const Job& job, std::uint64_t step);

}  // namespace rekindle::protocol
