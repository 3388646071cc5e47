// Converts the given options to a job: sets defaults that depend on other options, and checks values that
// concern more than one option.
#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>
#include <utility>
#include <vector>

#include "app/options.hpp"
#include "base/duration.hpp"
#include "base/nearest.hpp"
#include "base/text.hpp"
#include "data/dataset.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "protocol/training.hpp"

namespace rekindle::app {
namespace {

using protocol::Job;
namespace fs = std::filesystem;

constexpr std::uint64_t kMostTrainers = 1024;
constexpr std::uint64_t kMostMicroBatches = 65536;

bool has_gpu() {
  std::error_code code;
  return fs::exists("/dev/nvidia0", code);
}

fs::path whole_path(const std::string& path) { return fs::absolute(path).lexically_normal(); }

bool is_on(const std::string& value) { return value == "on" || value == "true"; }

class Resolver {
 public:
  Resolver(const RawOptions& raw, std::set<std::string>& wrong) : raw_(raw), wrong_(wrong) {}

  Result<LocalOptions> resolve() {
    REKINDLE_CHECK(paths());
    REKINDLE_CHECK(model_and_data());
    REKINDLE_CHECK(batch());
    REKINDLE_CHECK(length());
    REKINDLE_CHECK(optimizer());
    REKINDLE_CHECK(computing());
    REKINDLE_CHECK(checkpoints_and_failures());
    REKINDLE_CHECK(network());
    return std::move(options_);
  }

 private:
  using Names = std::vector<std::string>;

  tl::unexpected<Error> refuse(const Names& names, const std::string& what, const std::string& hint) {
    wrong_.insert(names.begin(), names.end());
    return fail(ExitCode::kUsage, what, hint);
  }
  Status one_of(const std::string& name, const std::string& value, const std::vector<std::string>& allowed) {
    if (std::ranges::find(allowed, value) != allowed.end()) return {};
    return refuse({name}, str("--", name, " ", value, " is not known"), did_you_mean(value, allowed));
  }
  Status duration(std::uint64_t& milliseconds, const std::string& name, const std::string& text) {
    const auto value = parse_duration("--" + name, text);
    if (!value) {
      wrong_.insert(name);
      return forward_error(value.error());
    }
    milliseconds = static_cast<std::uint64_t>(value->count());
    return {};
  }

  Status paths() {
    if (raw_.run_dir.empty()) return fail(ExitCode::kUsage, "no run directory", "add --run-dir DIR");
    options_.run_dir = whole_path(raw_.run_dir);
    options_.workers = raw_.workers;
    options_.change_lr = raw_.change_lr;
    job_.strict = raw_.strict;
    if (!raw_.init.empty()) options_.init = whole_path(raw_.init);
    options_.reset_head = raw_.reset_head;
    if (raw_.reset_head && raw_.init.empty())
      return refuse({"reset-head"}, "--reset-head without --init", "add --init FILE, or leave it out");
    return {};
  }

  bool is_mnist_cnn() const { return raw_.model == "mnist-cnn"; }
  bool is_gpt() const { return raw_.model == "gpt"; }

  // The trainer program knows the models, and refuses what a model cannot be built from (app/describe.hpp).
  Status model_sizes() {
    const std::pair<const char*, const std::optional<std::uint64_t>*> of_gpt[] = {
        {"layers", &raw_.layers}, {"heads", &raw_.heads}, {"width", &raw_.width}};
    for (const auto& [name, value] : of_gpt) {
      if (*value && !is_gpt())
        return refuse({name, "model"}, str("--", name, " is an option of gpt, not of ", raw_.model),
                      "leave it out");
    }
    if (is_gpt()) {
      job_.layers = raw_.layers.value_or(4);
      job_.heads = raw_.heads.value_or(4);
      job_.width = raw_.width.value_or(256);
    }
    if (job_.dataset == "text")
      job_.context = raw_.context.value_or(256);
    else if (raw_.context)
      return refuse({"context", "dataset"}, str("--context is an option of text, not of ", job_.dataset),
                    "leave it out");
    return {};
  }

  Status model_and_data() {
    job_.model = raw_.model;
    job_.dataset = !raw_.dataset.empty() ? raw_.dataset
                   : is_mnist_cnn()      ? "mnist"
                   : is_gpt()            ? "text"
                                         : "cifar10";
    REKINDLE_CHECK(one_of("dataset", job_.dataset, data::names_of_datasets()));
    REKINDLE_TRY(const data::DatasetRow* dataset, data::find_dataset(job_.dataset));
    const bool text = dataset->samples == data::SampleKind::kText;
    if (text != is_gpt())
      return refuse({"dataset", "model"},
                    str(job_.model, text ? " trains on images, and " : " trains on text, and ", job_.dataset,
                        " has none"),
                    "use another --dataset");
    if (raw_.data.empty())
      return fail(ExitCode::kUsage, "no data",
                  "add --data DIR, or make some: rekindle make-data " + job_.dataset + " DIR");
    job_.data = whole_path(raw_.data);
    job_.classes = raw_.classes.value_or(0);
    job_.seed = raw_.seed;
    job_.image_size = raw_.image_size.value_or(is_mnist_cnn() ? 28 : 224);
    REKINDLE_CHECK(model_sizes());
    if (!raw_.augment.empty())
      REKINDLE_CHECK(one_of("augment", raw_.augment, {"on", "off", "true", "false"}));
    job_.augment = raw_.augment.empty() ? dataset->augments : is_on(raw_.augment);
    if (job_.augment && !dataset->augments)
      return refuse({"augment"}, str(job_.dataset, " has no augmentation"), "leave --augment out");
    job_.dropout = raw_.dropout.value_or(-1);
    if (raw_.precision != "fp32")
      return refuse({"precision"}, str("--precision ", raw_.precision, " is not known"), "use fp32");
    job_.precision = raw_.precision;
    return {};
  }

  Status batch() {
    job_.batch_size = raw_.batch_size;
    job_.micro_batches = raw_.micro_batches.value_or(protocol::default_micro_batches(job_.batch_size));
    const std::uint64_t parts = job_.micro_batches;
    if (!std::has_single_bit(parts) || parts > kMostMicroBatches)
      return refuse({"micro-batches"}, str("--micro-batches ", parts, " is not a power of two"),
                    str("use ", std::bit_floor(parts), " or ", std::bit_ceil(parts)));
    if (job_.batch_size % parts != 0)
      return refuse({"batch-size", "micro-batches"},
                    str("--batch-size ", job_.batch_size, " is not a multiple of --micro-batches ", parts),
                    str("use ", (job_.batch_size / parts + 1) * parts, ", or fewer micro-batches"));
    job_.min_trainers = raw_.min_trainers;
    if (job_.min_trainers > parts)
      return refuse({"min-trainers", "micro-batches"},
                    str("--min-trainers ", job_.min_trainers, " is more than --micro-batches ", parts),
                    "a trainer computes at least one micro-batch of a step");
    return {};
  }

  Status length() {
    if (raw_.steps && raw_.epochs)
      return refuse({"steps", "epochs"}, "--steps and --epochs are both given", "give one of them");
    if (!raw_.steps && !raw_.epochs)
      return fail(ExitCode::kUsage, "the run has no length", "add --steps N or --epochs N");
    job_.steps = raw_.steps.value_or(0);
    job_.epochs = raw_.epochs.value_or(0);
    return {};
  }

  // An option that the optimizer does not have would be ignored in silence.
  Status check_given(const optim::Row& row) {
    const std::pair<const char*, bool> given[] = {{"momentum", raw_.momentum.has_value()},
                                                  {"dampening", raw_.dampening.has_value()},
                                                  {"nesterov", raw_.nesterov},
                                                  {"beta1", raw_.beta1.has_value()},
                                                  {"beta2", raw_.beta2.has_value()},
                                                  {"alpha", raw_.alpha.has_value()},
                                                  {"rho", raw_.rho.has_value()},
                                                  {"eps", raw_.eps.has_value()}};
    for (const auto& [name, is_given] : given) {
      if (is_given && std::string(row.options).find(str("--", name)) == std::string::npos)
        return refuse({name, "optimizer"}, str("--", name, " is not an option of ", row.name),
                      str("leave it out; ", row.name, " has ", row.options));
    }
    return {};
  }

  Status optimizer() {
    job_.optimizer = !raw_.optimizer.empty() ? raw_.optimizer : is_mnist_cnn() ? "adadelta" : "sgd";
    REKINDLE_CHECK(one_of("optimizer", job_.optimizer, optim::names_of_optimizers()));
    const optim::Row& row = *optim::find_optimizer(job_.optimizer);
    REKINDLE_CHECK(check_given(row));
    job_.lr = raw_.lr.value_or(row.learning_rate);
    job_.weight_decay = raw_.weight_decay.value_or(row.weight_decay);
    job_.momentum = raw_.momentum.value_or(job_.optimizer == "sgd" ? 0.9 : 0.0);
    job_.dampening = raw_.dampening.value_or(0);
    job_.nesterov = raw_.nesterov;
    job_.beta1 = raw_.beta1.value_or(job_.beta1);
    job_.beta2 = raw_.beta2.value_or(job_.beta2);
    job_.alpha = raw_.alpha.value_or(job_.alpha);
    job_.rho = raw_.rho.value_or(job_.rho);
    job_.eps = raw_.eps.value_or(row.eps);
    job_.label_smoothing = raw_.label_smoothing;
    if (raw_.ema && *raw_.ema == 0)
      return refuse({"ema"}, "--ema 0 averages nothing", "use a number between 0 and 1, or leave it out");
    job_.ema = raw_.ema.value_or(0);
    if (const auto made = optim::make_optimizer(protocol::optimizer_options(job_)); !made)
      return refuse(
          {"momentum", "dampening", "nesterov", "beta1", "beta2", "alpha", "rho", "eps", "weight-decay"},
          made.error().what, made.error().hint);
    return schedule();
  }

  Status schedule() {
    job_.schedule = raw_.schedule;
    REKINDLE_CHECK(one_of("schedule", job_.schedule, optim::names_of_schedules()));
    job_.warmup_steps = raw_.warmup_steps;
    job_.milestones = raw_.milestones;
    job_.lr_step = raw_.lr_step;
    job_.lr_gamma = raw_.lr_gamma.value_or(0.1);
    if (!job_.milestones.empty() && job_.schedule != "multi-step")
      return refuse({"milestones", "schedule"},
                    str("--milestones is not an option of --schedule ", job_.schedule),
                    "add --schedule multi-step");
    const auto schedule = protocol::schedule_of(job_);
    const Status valid = schedule ? optim::check_schedule(*schedule) : forward_error(schedule.error());
    if (!valid) return refuse({"schedule", "milestones"}, valid.error().what, valid.error().hint);
    return {};
  }

  Status device() {
    const std::string wanted = raw_.device == "gpu" ? "cuda" : raw_.device;
    REKINDLE_CHECK(one_of("device", wanted, {"auto", "cpu", "cuda"}));
    job_.device = wanted != "auto" ? wanted : kCudaBuild && has_gpu() ? "cuda" : "cpu";
    if (job_.device == "cuda" && !kCudaBuild)
      return fail(ExitCode::kConfig, "this build has no CUDA",
                  "use --device cpu, or build the preset 'cuda'");
    if (job_.device == "cuda" && !has_gpu())
      return fail(ExitCode::kConfig, "this machine has no GPU", "use --device cpu");
    return {};
  }

  Status trainers_per_worker() {
    const std::string& text = raw_.trainers_per_worker;
    job_.trainers_per_worker = 1;
    options_.own_trainers = text != "auto";
    if (!options_.own_trainers) return {};
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), job_.trainers_per_worker);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    if (is_number && job_.trainers_per_worker >= 1 && job_.trainers_per_worker <= kMostTrainers) return {};
    return refuse({"trainers-per-worker"}, str("--trainers-per-worker ", text, " is not a number"),
                  str("use auto, or 1 to ", kMostTrainers));
  }

  Status computing() {
    REKINDLE_CHECK(device());
    job_.threads = raw_.threads;
    job_.loader_threads = raw_.loader_threads;
    REKINDLE_CHECK(trainers_per_worker());
    if (options_.workers > kMostTrainers || options_.workers * job_.trainers_per_worker > kMostTrainers)
      return refuse({"workers"}, str("--workers ", options_.workers, " is too many"),
                    str("use at most ", kMostTrainers, " trainers on one machine"));
    REKINDLE_CHECK(one_of("exchange", raw_.exchange, {"auto", "shm", "tcp"}));
    job_.exchange = raw_.exchange;
    REKINDLE_CHECK(one_of("exchange-integrity", raw_.exchange_integrity, {"on", "off", "true", "false"}));
    job_.exchange_integrity = is_on(raw_.exchange_integrity);
    return {};
  }

  Status checkpoints_and_failures() {
    job_.checkpoint_every = raw_.checkpoint_every;
    REKINDLE_CHECK(duration(job_.checkpoint_interval_ms, "checkpoint-interval", raw_.checkpoint_interval));
    job_.keep = raw_.keep;
    job_.keep_best = raw_.keep_best;
    job_.hash_every = raw_.hash_every;
    options_.own_gather_time = !raw_.gather_time.empty();
    if (options_.own_gather_time)
      REKINDLE_CHECK(duration(job_.gather_time_ms, "gather-time", raw_.gather_time));
    REKINDLE_CHECK(duration(job_.lost_after_ms, "lost-after", raw_.lost_after));
    REKINDLE_CHECK(duration(job_.hang_after_ms, "hang-after", raw_.hang_after));
    if (!raw_.stop_within.empty())
      REKINDLE_CHECK(duration(job_.stop_within_ms, "stop-within", raw_.stop_within));
    return {};
  }

  Status network() {
    job_.interface = or_from_environment(raw_.interface);
    job_.port_range = raw_.port_range;
    if (Status checked = check_network(job_.interface, ""); !checked) {
      if (!raw_.interface.empty()) wrong_.insert("interface");
      return checked;
    }
    if (Status checked = check_network("", job_.port_range); !checked) {
      wrong_.insert("port-range");
      return checked;
    }
    try {
      static_cast<void>(nlohmann::json(job_).dump());
    } catch (const nlohmann::json::exception&) {
      return fail(ExitCode::kConfig, "a path or name is not valid UTF-8",
                  "rename it, or link to it by another name");
    }
    return {};
  }

  const RawOptions& raw_;
  std::set<std::string>& wrong_;
  LocalOptions options_;
  Job& job_ = options_.job;
};

}  // namespace

Result<LocalOptions> resolve_options(const RawOptions& raw, std::set<std::string>& wrong) {
  return Resolver(raw, wrong).resolve();
}

}  // namespace rekindle::app
