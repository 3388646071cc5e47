// What a run is asked to do: the job options of the command line, resolved. Written to run.toml.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rekindle::protocol {

// The learning rate's options, from one step on.
struct Rates {
  std::uint64_t since = 0;
  double lr = 0.001;
  std::uint64_t lr_step = 30;  // epochs
  double lr_gamma = 0.1;
  friend bool operator==(const Rates&, const Rates&) = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Rates, since, lr, lr_step, lr_gamma)

struct Job {
  std::string model = "vgg11", dataset = "cifar10", data;
  std::uint64_t batch_size = 128;
  std::uint64_t micro_batches = 16;  // equal parts of the batch, a power of two
  std::uint64_t steps = 0;   // total optimizer steps of the run, always resolved (from --steps or --epochs)
  std::uint64_t epochs = 0;  // as asked; 0: --steps was given
  std::uint64_t seed = 1;
  std::string optimizer = "sgd";
  double lr = 0.001, momentum = 0.9, weight_decay = 0.0005, lr_gamma = 0.1;
  std::uint64_t lr_step = 30;  // epochs
  std::uint64_t image_size = 224;
  bool augment = true;
  double dropout = 0.5;
  std::string precision = "fp32";
  std::string device = "cpu";  // resolved: "cpu" or "cuda"
  std::uint64_t threads = 1, loader_threads = 2;
  std::uint64_t trainers_per_worker = 1;
  std::string exchange = "auto";       // "auto", "shm", "tcp"
  bool exchange_integrity = true;      // tcp: every frame has an authentication tag
  std::uint64_t checkpoint_every = 0;  // steps; 0: only by time, at stops and at the end
  std::uint64_t checkpoint_interval_ms = 600000, keep = 3;
  bool keep_best = false;  // a checkpoint at each evaluation, and the best of them is kept
  std::uint64_t classes = 10;
  bool strict = false;
  std::string launched_by =
      "local";  // "local" or "slurm": who brings the run back when its first process dies
  // How the run looks after itself; may change at every start.
  std::uint64_t min_trainers = 1;  // fewer: training waits, at most the gather time
  std::uint64_t gather_time_ms = 300000;
  std::uint64_t lost_after_ms = 5000;    // without a heartbeat
  std::uint64_t hang_after_ms = 600000;  // without progress, waiting for nobody
  std::uint64_t hash_every = 100;        // steps between two comparisons of the replicas' states; 0: none
  std::uint64_t stop_within_ms = 0;      // a stop gives up a step that takes longer; 0: no limit
  // Where coordinator and trainers listen (base/network.hpp); empty: this machine alone, any port.
  std::string interface, port_range;
  // Resolved from the data set.
  std::uint64_t train_samples = 0, test_samples = 0;
  std::string data_hash;
  // Of the tensors that the run starts from, in init.safetensors; empty: it draws its initial values. And the
  // hash of the path that they are from.
  std::string init, init_source;
  // The step from which on the learning rate's options have been what they are: later than 0 after
  // --change-lr.
  std::uint64_t rates_since = 0;
  std::vector<Rates> earlier_rates;  // and those before it, in order: a step is made again with its own
  // Pinned by the first attempt: what the CPU libraries may use.
  std::string cpu_capability;
  // "NAME=value", recorded by the first attempt: what the numeric libraries read from the environment.
  std::vector<std::string> environment;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Job, model, dataset, data, batch_size, micro_batches, steps, epochs, seed,
                                   optimizer, lr, momentum, weight_decay, lr_gamma, lr_step, image_size,
                                   augment, dropout, precision, device, threads, loader_threads,
                                   trainers_per_worker, exchange, exchange_integrity, checkpoint_every,
                                   checkpoint_interval_ms, keep, keep_best, classes, strict, launched_by,
                                   min_trainers, gather_time_ms, lost_after_ms, hang_after_ms, hash_every,
                                   stop_within_ms, interface, port_range, train_samples, test_samples,
                                   data_hash, init, init_source, rates_since, earlier_rates, cpu_capability,
                                   environment)

inline bool launched_by_slurm(const Job& job) { return job.launched_by == "slurm"; }

// What makes the run this run: a resume with another identity is refused.
nlohmann::json identity_of(const Job& job);

// What --change-lr may change of a run's identity.
inline constexpr const char* kRateKeys[] = {"lr", "lr_step", "lr_gamma", "rates_since", "earlier_rates"};

// Makes those of `identity` what they are in `from`, also where they are not there.
void take_rates(nlohmann::json& identity, const nlohmann::json& from);

// The options of the learning rate that made the steps up to `step`, in order; from an identity.
std::vector<Rates> rates_until(const nlohmann::json& identity, std::uint64_t step);

// The first key in which two identities differ, or "".
std::string first_difference(const nlohmann::json& a, const nlohmann::json& b);

// The largest power of two, up to 32, that divides the batch and leaves at least 8 samples in each part; 1 if
// there is none. A function of the batch alone: one command has the same bits on every machine.
std::uint64_t default_micro_batches(std::uint64_t batch_size);

// Schedules: pure functions of the step.
std::uint64_t epoch_of(const Job& job, std::uint64_t step);  // of the step's first sample
double learning_rate(const Job& job, std::uint64_t step);    // lr * gamma^(epoch / lr_step), of that step
std::uint64_t steps_for_epochs(const Job& job, std::uint64_t epochs);  // ceil(E * N / batch)
// True when the state after `step` updates ends an epoch (or the run): time to evaluate.
bool evaluation_due(const Job& job, std::uint64_t step);

}  // namespace rekindle::protocol
