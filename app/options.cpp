#include "app/options.hpp"

#include <CLI/CLI.hpp>
#include <bit>
#include <optional>
#include <set>

#include "app/ranges.hpp"
#include "app/run_config.hpp"
#include "app/spellings.hpp"
#include "base/duration.hpp"
#include "base/nearest.hpp"
#include "base/network.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::app {

using protocol::Job;

// As given; what depends on the model or the optimizer is optional until resolve().
struct JobOptions::Raw {
  std::string run_dir, config_file, model = "vgg11", optimizer, dataset, data, augment, precision = "fp32",
                                    device = "auto", exchange = "auto", exchange_integrity = "on",
                                    checkpoint_interval = "10min", trainers_per_worker = "auto",
                                    lost_after = "5s", hang_after = "10min", stop_within, interface,
                                    port_range, init, gather_time;
  std::uint64_t workers = 1, batch_size = 128, seed = 1, threads = 1, loader_threads = 2, keep = 3,
                checkpoint_every = 0, lr_step = 30, min_trainers = 1, hash_every = 100;
  std::optional<std::uint64_t> micro_batches, steps, epochs, image_size, classes;
  std::optional<double> lr, momentum, weight_decay, lr_gamma, dropout;
  bool strict = false, change_lr = false, keep_best = false, reset_head = false;
};

JobOptions::JobOptions(CLI::App& command) : raw_(std::make_unique<Raw>()), command_(command) {
  Raw& r = *raw_;
  const auto positive = whole_number(1);
  command.allow_extras();
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as argparse does
  command.option_defaults()->always_capture_default();
  command.add_option("--run-dir", r.run_dir, "the run's directory, on storage that all nodes share");
  command.add_option("--config", r.config_file,
                     "a TOML file with any of these options; the command line wins");
  command.add_option("--workers", r.workers, "workers on this machine")->check(positive);
  command.add_option("--model", r.model, "vgg11 or mnist-cnn");
  command.add_option("--dataset", r.dataset, "cifar10 or mnist (default: the model's)");
  command.add_option("--data", r.data, "the folder with the data set's files");
  command.add_option("--classes", r.classes, "number of classes (default: the data set's)")->check(positive);
  command.add_option("--batch-size", r.batch_size, "images a step, over all trainers")->check(positive);
  command
      .add_option(
          "--micro-batches", r.micro_batches,
          "equal parts of a batch, a power of two: at most that many trainers can work at once, and a "
          "resume cannot change it (default: up to 32, with 8 samples or more in each)")
      ->check(positive);
  command.add_option("--steps", r.steps, "length of the run in steps")->check(positive);
  command.add_option("--epochs", r.epochs, "length of the run in epochs")->check(positive);
  command.add_option("--seed", r.seed, "of initial values, sample order and all draws")
      ->check(within(std::uint64_t{0}, std::uint64_t{INT64_MAX},
                     "a whole number of at most 9223372036854775807"));
  command.add_option("--init", r.init,
                     "start from these values: a .safetensors or .h5 file, a checkpoint or a run directory");
  command.add_flag("--reset-head", r.reset_head,
                   "with --init: the last layer starts anew, for another number of classes");
  command.add_option("--optimizer", r.optimizer, "sgd or adadelta (default: the model's)");
  command.add_option("--lr", r.lr, "learning rate (default: sgd 0.001, adadelta 1.0)")->check(number_from(0));
  command.add_option("--momentum", r.momentum, "of sgd (default: 0.9)")->check(number(0, 1));
  command.add_option("--weight-decay", r.weight_decay, "(default: sgd 0.0005, adadelta 0)")
      ->check(number_from(0));
  command.add_option("--lr-step", r.lr_step, "epochs after which the rate is multiplied by --lr-gamma")
      ->check(positive);
  command.add_option("--lr-gamma", r.lr_gamma, "see --lr-step (default: 0.1)")->check(number_from(0));
  command.add_option("--image-size", r.image_size, "pixels a side (default: vgg11 224, mnist-cnn 28)")
      ->check(whole_number(8, 4096));
  command.add_option("--augment", r.augment, "on or off: random crop and flip (default: on for cifar10)");
  command.add_option("--dropout", r.dropout, "of vgg11; mnist-cnn has its own two unless 0 (default: 0.5)")
      ->check(number(0, 0.999));
  command.add_option("--precision", r.precision, "fp32");
  command.add_option("--device", r.device, "auto, cpu or cuda");
  command.add_option("--threads", r.threads, "compute threads a trainer; part of what makes the bits")
      ->check(positive);
  command.add_option("--trainers-per-worker", r.trainers_per_worker, "auto or a number");
  command.add_option("--loader-threads,--num-workers", r.loader_threads, "data threads a trainer")
      ->check(positive);
  command.add_option("--exchange", r.exchange, "auto, shm or tcp");
  command.add_option("--exchange-integrity", r.exchange_integrity,
                     "on or off: over tcp, trainers find data that somebody changed on the network");
  command.add_option("--checkpoint-every", r.checkpoint_every, "steps between checkpoints; 0: by time only")
      ->check(whole_number(0));
  command.add_option("--checkpoint-interval", r.checkpoint_interval, "time between checkpoints, with a unit");
  command.add_option("--keep", r.keep, "checkpoints to keep")->check(positive);
  command.add_flag("--keep-best", r.keep_best,
                   "a checkpoint at each evaluation; the one with the best test accuracy is kept besides");
  command.add_option("--min-trainers", r.min_trainers, "with fewer, training waits")->check(positive);
  command.add_option("--gather-time", r.gather_time,
                     "how long to wait for trainers, at the start and when too few are left (default: 5min)");
  command.add_option("--lost-after", r.lost_after, "without a heartbeat, a worker or trainer is lost");
  command.add_option("--hang-after", r.hang_after, "without progress, a trainer is replaced");
  command
      .add_option("--hash-every", r.hash_every,
                  "steps between two comparisons of the trainers' states; 0: at checkpoints only")
      ->check(whole_number(0));
  command.add_option("--stop-within", r.stop_within,
                     "a stop gives up the step in flight where it would take longer (default: no limit)");
  add_network_options(command, r.interface, r.port_range);
  command.add_flag("--strict", r.strict, "refuse to resume where the bits may differ (another build or CPU)");
  command.add_flag("--change-lr", r.change_lr,
                   "resume with another --lr, --lr-step or --lr-gamma than before");
}

JobOptions::~JobOptions() = default;

void add_network_options(CLI::App& command, std::string& interface, std::string& port_range) {
  command.add_option("--interface", interface,
                     "the network interface (or address) of this machine to listen on, as NCCL_SOCKET_IFNAME "
                     "(default: that, GLOO_SOCKET_IFNAME, this machine alone)");
  command.add_option("--port-range", port_range, "ports to listen on, as in 20000-20100 (default: any)");
}

std::string or_from_environment(const std::string& interface) {
  if (!interface.empty()) return interface;
  for (const char* name : {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    if (std::string value = environment_variable(name); !value.empty()) return value;
  }
  return "";
}

Status check_network(const std::string& interface, const std::string& port_range) {
  REKINDLE_CHECK(choose_address(interfaces(), interface));
  REKINDLE_CHECK(parse_port_range(port_range));
  return {};
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? "rekindle" : "rekindle " + command.get_name();
}

Error unknown_option(const CLI::App& command, const std::string& word, bool in_file) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  const std::size_t dashes = word.find_first_not_of('-');
  const std::string bare = dashes == std::string::npos ? word : word.substr(dashes, word.find('=') - dashes);
  const std::string near = nearest_name(bare, names), all = str("see ", full_name(command), " --help");
  if (in_file)
    return {ExitCode::kConfig, str("unknown key '", word, "' in the configuration file"),
            near.empty() ? all : str("did you mean ", near, "?")};
  if (!word.starts_with("-")) return {ExitCode::kUsage, str("'", word, "' belongs to no option"), all};
  return {ExitCode::kUsage, str("unknown option '", word, "'"),
          near.empty() ? all : str("did you mean --", near, "?")};
}

namespace {

// Values from the file for options that the command line leaves open.
Status apply_file(CLI::App& command, const std::filesystem::path& file, std::set<std::string>& applied) {
  REKINDLE_TRY(const auto entries, read_config_file(file));
  for (const auto& [written, value] : entries) {
    const std::string key = usual_name(written);
    CLI::Option* option = command.get_option_no_throw("--" + key);
    if (option == nullptr || key == "config" || key == "help")
      return forward_error(unknown_option(command, written, true));
    if (option->count() > 0) continue;
    try {
      if (option->get_items_expected_max() == 0) {  // a flag
        if (value != "true" && value != "false")
          return fail(ExitCode::kConfig, str("'", key, "' in ", file.string(), " is neither true nor false"));
        if (value == "false") continue;
        option->add_result("true");
      } else {
        option->add_result(value);
      }
      option->run_callback();
      applied.insert(key);
    } catch (const CLI::Error& error) {
      return fail(ExitCode::kConfig, str(file.string(), ": ", error.what()));
    }
  }
  return {};
}

Status one_of(const char* option, const std::string& value, const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return {};
  return fail(ExitCode::kUsage, str(option, " ", value, " is not known"), did_you_mean(value, allowed));
}

Status set_duration(std::uint64_t& milliseconds, const char* option, const std::string& text) {
  REKINDLE_TRY(const auto duration, parse_duration(option, text));
  milliseconds = static_cast<std::uint64_t>(duration.count());
  return {};
}

bool has_gpu() {
  std::error_code code;
  return std::filesystem::exists("/dev/nvidia0", code);
}

// What is wrong with a value from the configuration file is the file's fault, not the command line's.
Error blame_file(Error error, const std::string& file, const std::set<std::string>& keys) {
  for (const std::string& key : keys) {
    if (error.code != ExitCode::kUsage || error.what.find("--" + key) == std::string::npos) continue;
    return {ExitCode::kConfig, str(file, ": ", error.what), error.hint};
  }
  return error;
}

}  // namespace

Result<LocalOptions> JobOptions::resolve() {
  std::set<std::string> from_file;
  if (!raw_->config_file.empty()) {
    for (const std::string& extra : command_.remaining())
      return forward_error(unknown_option(command_, extra, false));
    REKINDLE_CHECK(apply_file(command_, raw_->config_file, from_file));
  }
  auto options = resolve_values();
  if (!options) return forward_error(blame_file(options.error(), raw_->config_file, from_file));
  return options;
}

Result<LocalOptions> JobOptions::resolve_values() {
  for (const std::string& extra : command_.remaining())
    return forward_error(unknown_option(command_, extra, false));
  Raw& r = *raw_;
  if (r.run_dir.empty()) return fail(ExitCode::kUsage, "no run directory", "add --run-dir DIR");

  LocalOptions options;
  options.run_dir = std::filesystem::absolute(r.run_dir).lexically_normal();
  options.workers = r.workers;
  options.change_lr = r.change_lr;
  if (!r.init.empty()) options.init = std::filesystem::absolute(r.init).lexically_normal();
  options.reset_head = r.reset_head;
  if (r.reset_head && r.init.empty())
    return fail(ExitCode::kUsage, "--reset-head without --init", "add --init FILE, or leave it out");
  Job& job = options.job;
  REKINDLE_CHECK(one_of("--model", r.model, {"vgg11", "mnist-cnn"}));
  const bool mnist = r.model == "mnist-cnn";
  job.model = r.model;
  job.dataset = !r.dataset.empty() ? r.dataset : mnist ? "mnist" : "cifar10";
  REKINDLE_CHECK(one_of("--dataset", job.dataset, {"cifar10", "mnist"}));
  if (r.data.empty())
    return fail(ExitCode::kUsage, "no data",
                "add --data DIR, or make some: rekindle make-data " + job.dataset + " DIR");
  job.data = std::filesystem::absolute(r.data).lexically_normal();
  job.classes = r.classes.value_or(0);
  job.batch_size = r.batch_size;
  job.micro_batches = r.micro_batches.value_or(protocol::default_micro_batches(job.batch_size));
  if (!std::has_single_bit(job.micro_batches) || job.micro_batches > 65536) {
    return fail(ExitCode::kUsage, str("--micro-batches ", job.micro_batches, " is not a power of two"),
                str("use ", std::bit_floor(job.micro_batches), " or ", std::bit_ceil(job.micro_batches)));
  }
  if (job.batch_size % job.micro_batches != 0) {
    return fail(
        ExitCode::kUsage,
        str("--batch-size ", job.batch_size, " is not a multiple of --micro-batches ", job.micro_batches),
        str("use ", (job.batch_size / job.micro_batches + 1) * job.micro_batches,
            ", or fewer micro-batches"));
  }
  if (r.steps && r.epochs)
    return fail(ExitCode::kUsage, "--steps and --epochs are both given", "give one of them");
  if (!r.steps && !r.epochs)
    return fail(ExitCode::kUsage, "the run has no length", "add --steps N or --epochs N");
  job.steps = r.steps.value_or(0);
  job.epochs = r.epochs.value_or(0);
  job.seed = r.seed;
  job.optimizer = !r.optimizer.empty() ? r.optimizer : mnist ? "adadelta" : "sgd";
  REKINDLE_CHECK(one_of("--optimizer", job.optimizer, {"sgd", "adadelta"}));
  const bool sgd = job.optimizer == "sgd";
  job.lr = r.lr.value_or(sgd ? 0.001 : 1.0);
  job.momentum = sgd ? r.momentum.value_or(0.9) : 0.0;
  job.weight_decay = r.weight_decay.value_or(sgd ? 0.0005 : 0.0);
  job.lr_step = r.lr_step;
  job.lr_gamma = r.lr_gamma.value_or(0.1);
  job.image_size = r.image_size.value_or(mnist ? 28 : 224);
  if (!r.augment.empty()) REKINDLE_CHECK(one_of("--augment", r.augment, {"on", "off", "true", "false"}));
  job.augment = r.augment.empty() ? job.dataset == "cifar10" : r.augment == "on" || r.augment == "true";
  if (job.augment && job.dataset == "mnist")
    return fail(ExitCode::kUsage, "mnist has no augmentation", "leave --augment out");
  job.dropout = r.dropout.value_or(0.5);
  if (r.precision != "fp32")
    return fail(ExitCode::kUsage, str("--precision ", r.precision, " is not known"), "use fp32");
  job.precision = r.precision;
  if (r.device == "gpu") r.device = "cuda";
  REKINDLE_CHECK(one_of("--device", r.device, {"auto", "cpu", "cuda"}));
  job.device = r.device != "auto" ? r.device : kCudaBuild && has_gpu() ? "cuda" : "cpu";
  if (job.device == "cuda" && !kCudaBuild) {
    return fail(ExitCode::kConfig, "this build has no CUDA", "use --device cpu, or build the preset 'cuda'");
  }
  if (job.device == "cuda" && !has_gpu())
    return fail(ExitCode::kConfig, "this machine has no GPU", "use --device cpu");
  const std::uint64_t smallest = mnist ? 8 : 32;
  if (job.image_size < smallest) {
    return fail(ExitCode::kUsage, str("--image-size ", job.image_size, " is too small for ", job.model),
                str("use at least ", smallest));
  }
  job.threads = r.threads;
  job.loader_threads = r.loader_threads;
  job.trainers_per_worker = 1;
  if (r.trainers_per_worker != "auto") {
    options.own_trainers = true;
    job.trainers_per_worker = std::strtoull(r.trainers_per_worker.c_str(), nullptr, 10);
    if (job.trainers_per_worker < 1 || job.trainers_per_worker > 1024 ||
        r.trainers_per_worker.find_first_not_of("0123456789") != std::string::npos) {
      return fail(ExitCode::kUsage, str("--trainers-per-worker ", r.trainers_per_worker, " is no number"),
                  "use auto, or 1 to 1024");
    }
  }
  REKINDLE_CHECK(one_of("--exchange", r.exchange, {"auto", "shm", "tcp"}));
  REKINDLE_CHECK(one_of("--exchange-integrity", r.exchange_integrity, {"on", "off", "true", "false"}));
  constexpr std::uint64_t kMostTrainers = 1024;
  if (options.workers > kMostTrainers || options.workers * job.trainers_per_worker > kMostTrainers) {
    return fail(ExitCode::kUsage, str("--workers ", options.workers, " is too many"),
                str("use at most ", kMostTrainers, " trainers on one machine"));
  }
  job.exchange = r.exchange;
  job.exchange_integrity = r.exchange_integrity == "on" || r.exchange_integrity == "true";
  job.checkpoint_every = r.checkpoint_every;
  REKINDLE_CHECK(set_duration(job.checkpoint_interval_ms, "--checkpoint-interval", r.checkpoint_interval));
  job.keep = r.keep;
  job.keep_best = r.keep_best;
  job.min_trainers = r.min_trainers;
  if (job.min_trainers > job.micro_batches)
    return fail(ExitCode::kUsage,
                str("--min-trainers ", job.min_trainers, " is more than --micro-batches ", job.micro_batches),
                "a trainer computes at least one micro-batch of a step");
  job.hash_every = r.hash_every;
  options.own_gather_time = !r.gather_time.empty();
  if (options.own_gather_time)
    REKINDLE_CHECK(set_duration(job.gather_time_ms, "--gather-time", r.gather_time));
  REKINDLE_CHECK(set_duration(job.lost_after_ms, "--lost-after", r.lost_after));
  REKINDLE_CHECK(set_duration(job.hang_after_ms, "--hang-after", r.hang_after));
  if (!r.stop_within.empty())
    REKINDLE_CHECK(set_duration(job.stop_within_ms, "--stop-within", r.stop_within));
  job.interface = or_from_environment(r.interface);
  job.port_range = r.port_range;
  REKINDLE_CHECK(check_network(job.interface, job.port_range));
  job.strict = r.strict;
  try {
    static_cast<void>(nlohmann::json(job).dump());
  } catch (const nlohmann::json::exception&) {
    return fail(ExitCode::kConfig, "a path or name is not valid UTF-8",
                "rename it, or link to it by another name");
  }
  return options;
}

}  // namespace rekindle::app
