#include "app/option_table.hpp"

#include <CLI/CLI.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "app/ranges.hpp"
#include "base/text.hpp"
#include "data/dataset.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"

namespace rekindle::app {
namespace {

using enum OptionGroup;
using enum AtResume;

std::string default_of(const std::string& value) { return value; }
std::string default_of(std::uint64_t value) { return str(value); }
std::string default_of(bool) { return ""; }
std::string default_of(double value) { return str(value); }
template <class T>
std::string default_of(const std::optional<T>&) {
  return "";
}

// "cifar10, mnist or text"
std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += str(i == 0 ? "" : i + 1 < names.size() ? ", " : " or ", names[i]);
  return text;
}

// With its values and its default.
std::string help_of(const OptionRow& row, const std::string& otherwise) {
  const std::string help = row.values != nullptr ? alternatives(row.values()) + row.help : row.help;
  return otherwise.empty() ? help : str(help, " (default: ", otherwise, ")");
}

// An option that stores into one field of RawOptions.
template <auto kField>
CLI::Option* add(CLI::App& command, RawOptions& raw, const OptionRow& row) {
  auto& field = raw.*kField;
  const std::string otherwise = row.default_text != nullptr ? row.default_text : default_of(field);
  const std::string help = help_of(row, otherwise);
  const std::string name = str("--", row.name);
  CLI::Option* option;
  if constexpr (std::is_same_v<std::remove_reference_t<decltype(field)>, bool>)
    option = command.add_flag(name, field, help);
  else
    option = command.add_option(name, field, help)->type_name(row.value);
  return option->group(title_of(row.group));
}

// The same with a check of the value.
template <auto kField, CLI::Validator (*kCheck)()>
CLI::Option* add(CLI::App& command, RawOptions& raw, const OptionRow& row) {
  return add<kField>(command, raw, row)->transform(kCheck());
}

template <auto kField>  // texts with commas between them; the option may be repeated
CLI::Option* add_list(CLI::App& command, RawOptions& raw, const OptionRow& row) {
  return add<kField>(command, raw, row)->multi_option_policy(CLI::MultiOptionPolicy::Join)->delimiter(',');
}

template <auto kField>  // an option that may stand without a value, which then is "true"
CLI::Option* add_with_default(CLI::App& command, RawOptions& raw, const OptionRow& row) {
  return add<kField>(command, raw, row)->expected(0, 1);
}

using R = RawOptions;
constexpr OptionRow kTable[] = {
    {"run-dir", "DIR", kEssential, kNames, "the run's directory, on storage that all nodes share", "",
     add<&R::run_dir>},
    {"config", "FILE", kEssential, kFree, "a TOML file with any of these options; the command line wins", "",
     add<&R::config_file>},
    {"model", "NAME", kEssential, kEqual,
     "vgg11, 13, 16 or 19, each also with _bn; resnet18, 34, 50 or 101; mnist-cnn; gpt", nullptr,
     add<&R::model>},
    {"dataset", "NAME", kEssential, kEqual, "", "the model's", add<&R::dataset>,
     [] { return data::names_of_datasets(); }},
    {"data", "PATH", kEssential, kFree,
     "the folder with the data set's files, or a text's file; a resume may find the same files elsewhere", "",
     add<&R::data>},
    {"epochs", "N", kEssential, kFree, "length of the run in epochs", "", add<&R::epochs, positive>},
    {"steps", "N", kEssential, kFree, "length of the run in steps, in place of --epochs", "",
     add<&R::steps, positive>},
    {"batch-size", "N", kEssential, kEqual, "images a step, over all trainers", nullptr,
     add<&R::batch_size, int_number>},
    {"micro-batches", "N", kEssential, kEqual,
     "equal parts of a batch, a power of two: at most that many trainers can work at once",
     "up to 32, with 8 samples or more in each", add<&R::micro_batches, int_number>},
    {"lr", "RATE", kEssential, kChangeLr, "learning rate",
     "sgd, adam and adamw 0.001, rmsprop 0.01, adadelta 1", add<&R::lr, rate>},
    {"seed", "N", kEssential, kEqual, "of initial values, sample order and all draws", nullptr,
     add<&R::seed, seed>},
    {"workers", "N", kEssential, kFree, "workers on this machine", nullptr, add<&R::workers, positive>},
    {"device", "NAME", kEssential, kFree, "auto, cpu or cuda; another one makes other bits", nullptr,
     add<&R::device>},
    {"checkpoint-interval", "TIME", kEssential, kFree, "time between checkpoints, with a unit", nullptr,
     add<&R::checkpoint_interval>},
    {"keep", "N", kEssential, kFree, "checkpoints to keep", nullptr, add<&R::keep, int_number>},
    {"dry-run", "", kEssential, kFree,
     "check everything, make a few steps in a folder of its own, and say what the run will take", "",
     add<&R::dry_run>},
    {"classes", "N", kModel, kEqual, "number of classes", "the data set's", add<&R::classes, int_number>},
    {"image-size", "PIXELS", kModel, kEqual, "pixels a side", "the data set's; mnist-cnn 28, others 224",
     add<&R::image_size, pixels>},
    {"augment", "NAME", kModel, kEqual,
     "random flips with crop (anywhere in the image) or resized-crop (a random part, resized); off; or on: "
     "what is usual for the data set, as without a value",
     "on: cifar10 and cifar100 crop, image-folder resized-crop, others off", add_with_default<&R::augment>},
    {"skip-corrupt", "", kModel, kMayBeAdded,
     "of image-folder: use the next readable image in place of one that cannot be decoded", "",
     add<&R::skip_corrupt>},
    {"dropout", "P", kModel, kEqual, "of vgg and gpt; mnist-cnn has two rates of its own, unless 0 is given",
     "vgg 0.5, gpt 0", add<&R::dropout, drop>},
    {"layers", "N", kModel, kEqual, "of gpt", "4", add<&R::layers, int_number>},
    {"heads", "N", kModel, kEqual, "of gpt, in each layer", "4", add<&R::heads, int_number>},
    {"width", "N", kModel, kEqual, "of gpt: features of a token, a multiple of --heads", "256",
     add<&R::width, int_number>},
    {"context", "N", kModel, kEqual, "of a text: tokens in a sample", "256", add<&R::context, int_number>},
    {"model-options", "NAME=VALUE", kModel, kEqual,
     "of a model of your own (docs/extending.md): several with commas between them; may be repeated", "",
     add_list<&R::model_options>},
    {"precision", "NAME", kModel, kEqual, "fp32; bf16: by autocast, the state stays float32; tf32, on GPUs",
     nullptr, add<&R::precision>},
    {"init", "FILE|DIR", kModel, kEqual,
     "start from these values: a .safetensors or .h5 file, a checkpoint or a run directory", "",
     add<&R::init>},
    {"reset-head", "", kModel, kFree,
     "with --init: the last layer starts anew, for another number of classes", "", add<&R::reset_head>},

    {"optimizer", "NAME", kOptimizer, kEqual, ", as in torch.optim", "the model's", add<&R::optimizer>,
     [] { return optim::names_of_optimizers(); }},
    {"momentum", "M", kOptimizer, kEqual, "of sgd and rmsprop", "sgd 0.9, rmsprop 0",
     add<&R::momentum, fraction>},
    {"dampening", "D", kOptimizer, kEqual, "of sgd", "0", add<&R::dampening, fraction>},
    {"nesterov", "", kOptimizer, kEqual, "of sgd: Nesterov's momentum", "", add<&R::nesterov>},
    {"beta1", "B", kOptimizer, kEqual, "of adam and adamw", "0.9", add<&R::beta1, fraction>},
    {"beta2", "B", kOptimizer, kEqual, "of adam and adamw", "0.999", add<&R::beta2, fraction>},
    {"alpha", "A", kOptimizer, kEqual, "of rmsprop", "0.99", add<&R::alpha, fraction>},
    {"rho", "R", kOptimizer, kEqual, "of adadelta", "0.9", add<&R::rho, fraction>},
    {"eps", "E", kOptimizer, kEqual, "of adam, adamw, adadelta and rmsprop", "1e-8, adadelta 1e-6",
     add<&R::eps, fraction>},
    {"weight-decay", "W", kOptimizer, kEqual, "an L2 penalty, or that of adamw",
     "sgd 0.0005, adamw 0.01, else 0", add<&R::weight_decay, rate>},
    {"clip-norm", "NORM", kOptimizer, kEqual,
     "limit of the gradient's norm, as torch.nn.utils.clip_grad_norm_; a step whose gradient is not finite "
     "changes nothing",
     "no limit", add<&R::clip_norm, rate>},
    {"no-decay", "PATTERNS", kOptimizer, kEqual,
     "parameters without weight decay, by name, as in '*.bias'; may be repeated", "", add_list<&R::no_decay>},
    {"lr-scale", "PATTERNS", kOptimizer, kEqual,
     "parameters with another learning rate, as in 'fc.*=0.1': its factor; may be repeated", "",
     add_list<&R::lr_scale>},
    {"ema", "DECAY", kOptimizer, kEqual,
     "keep a moving average of parameters and buffers, and evaluate that: as in torch.optim.swa_utils", "",
     add<&R::ema, fraction>},
    {"label-smoothing", "P", kOptimizer, kEqual, "as in torch.nn.CrossEntropyLoss", "0",
     add<&R::label_smoothing, drop>},
    {"schedule", "NAME", kOptimizer, kEqual, ": how the learning rate changes", nullptr, add<&R::schedule>,
     [] { return optim::names_of_schedules(); }},
    {"warmup-steps", "N", kOptimizer, kEqual, "steps over which the rate grows linearly to --lr", nullptr,
     add<&R::warmup_steps, from_0>},
    {"milestones", "EPOCHS", kOptimizer, kEqual,
     "of multi-step, as in 30,60,80: the rate is multiplied by --lr-gamma at each", "", add<&R::milestones>},
    {"lr-step", "EPOCHS", kOptimizer, kChangeLr,
     "of step: epochs after which the rate is multiplied by --lr-gamma", nullptr,
     add<&R::lr_step, int_number>},
    {"lr-gamma", "G", kOptimizer, kChangeLr, "of step, multi-step and exponential", "0.1",
     add<&R::lr_gamma, rate>},

    {"threads", "N", kComputing, kFree, "compute threads a trainer; another number may make other bits",
     nullptr, add<&R::threads, threads>},
    {"trainers-per-worker", "N", kComputing, kFree,
     "a number, or auto: 1; in a Slurm job one for each GPU or task of a node", nullptr,
     add<&R::trainers_per_worker>},
    {"loader-threads", "N", kComputing, kFree, "data threads a trainer; 0: the step itself loads", nullptr,
     add<&R::loader_threads, threads_or_none>},
    {"python", "PROGRAM", kComputing, kFree, "the interpreter of a script, the same path on every node",
     "$REKINDLE_PYTHON, the wheel's own, python3 on PATH", add<&R::python>},
    {"container", "IMAGE", kComputing, kFree,
     "run each node's worker and trainers in a container of this image, on every node", "",
     add<&R::container>},
    {"container-runtime", "NAME", kComputing, kFree,
     "apptainer or singularity (NAME exec), or srun (its --container-image)", nullptr,
     add<&R::container_runtime>},
    {"container-mounts", "PATHS", kComputing, kFree,
     "what else is visible in the container, at the same path; with commas between them", "",
     add<&R::container_mounts>},
    {"log-interval", "STEPS", kComputing, kFree,
     "a line for each so many steps; 0: on a terminal none, else one every 10 s", nullptr,
     add<&R::log_interval, from_0>},
    {"exchange", "NAME", kComputing, kFree,
     "auto, shm, tcp or nccl: how trainers exchange gradients; auto: nccl between GPUs", nullptr,
     add<&R::exchange>},
    {"exchange-integrity", "on|off", kComputing, kFree,
     "over tcp, trainers find data that somebody changed on the network", nullptr,
     add<&R::exchange_integrity>},

    {"checkpoint-every", "STEPS", kCheckpoints, kFree, "steps between checkpoints; 0: by time only", nullptr,
     add<&R::checkpoint_every, from_0>},
    {"keep-best", "", kCheckpoints, kFree,
     "a checkpoint at each evaluation; the one with the best test accuracy is kept besides", "",
     add<&R::keep_best>},
    {"best-metric", "NAME", kCheckpoints, kFree,
     "of the test set: --keep-best keeps the highest, of a loss and of min:NAME the lowest",
     "accuracy, or the loss of a task without", add<&R::best_metric>},
    {"evaluate-every", "STEPS", kCheckpoints, kFree,
     "steps between evaluations; 0: after each epoch. The last step is always evaluated", nullptr,
     add<&R::evaluate_every, from_0>},
    {"hash-every", "STEPS", kCheckpoints, kFree,
     "steps between two comparisons of the trainers' states; 0: at checkpoints only", nullptr,
     add<&R::hash_every, from_0>},

    {"min-trainers", "N", kFailures, kFree, "with fewer trainers, training waits", nullptr,
     add<&R::min_trainers, int_number>},
    {"gather-time", "TIME", kFailures, kFree,
     "how long to wait for trainers, at the start and when too few are left",
     "5min, or longer for a slow script or slow data", add<&R::gather_time>},
    {"lost-after", "TIME", kFailures, kFree, "without a heartbeat for so long, a worker or trainer is lost",
     nullptr, add<&R::lost_after>},
    {"hang-after", "TIME", kFailures, kFree, "without progress for so long, a trainer is replaced", nullptr,
     add<&R::hang_after>},
    {"data-wait", "TIME", kFailures, kFree, "how long samples that cannot be read are waited for", nullptr,
     add<&R::data_wait>},
    {"stop-within", "TIME", kFailures, kFree,
     "a stop gives up the step in flight if that step would take longer", "no limit", add<&R::stop_within>},

    {"interface", "NAME", kNetwork, kFree,
     "the network interface (or address) of this machine to listen on, as NCCL_SOCKET_IFNAME",
     "that, GLOO_SOCKET_IFNAME, in a Slurm job NodeAddr, else this machine alone", add<&R::interface>},
    {"port-range", "FIRST-LAST", kNetwork, kFree, "ports to listen on, as in 20000-20100", "any",
     add<&R::port_range>},

    {"status-port", "N", kWatching, kFree, "serve a page of the run; 0: at a free port", "no page",
     add<&R::status_port, port>},
    {"status-bind", "ADDRESS", kWatching, kFree,
     "the address of this machine at which the page is served; 0.0.0.0: all", nullptr, add<&R::status_bind>},
    {"allow-host", "NAME", kWatching, kFree,
     "a host name under which browsers may ask for the page: a proxy's; may be repeated", "",
     add_list<&R::allow_host>},
    {"status-html", "FILE", kWatching, kFree, "write the page as one file, each minute and at the end", "",
     add<&R::status_html>},
    {"metrics-bind", "ADDRESS:PORT", kWatching, kFree, "serve /metrics for Prometheus, and nothing else", "",
     add<&R::metrics_bind>},
    {"metrics-token-file", "FILE", kWatching, kFree, "a file with the bearer token that /metrics asks for",
     "the page's token, in the run directory's key/", add<&R::metrics_token_file>},
    {"metrics-targets", "DIR", kWatching, kFree,
     "a folder with a file for each run, by which Prometheus finds --metrics-bind (file_sd_configs)", "",
     add<&R::metrics_targets>},
    {"metrics-open", "", kWatching, kFree, "serve /metrics to everybody, without a token", "",
     add<&R::metrics_open>},
    {"tensorboard", "", kWatching, kFree, "write files for TensorBoard below the run directory", "",
     add<&R::tensorboard>},
    {"on-event", "COMMAND", kWatching, kFree,
     "a shell command for each thing that happens to the run, which it gets on its input as JSON; at most a "
     "minute",
     "", add<&R::on_event>},

    {"strict", "", kResume, kFree, "refuse to resume where the bits may differ (another build or CPU)", "",
     add<&R::strict>},
    {"change-lr", "", kResume, kFree, "resume with another --lr, --lr-step or --lr-gamma than before", "",
     add<&R::change_lr>},
};

}  // namespace

std::span<const OptionRow> option_table() { return kTable; }

void add_options(CLI::App& command, RawOptions& raw) {
  for (const OptionRow& row : kTable) row.add(command, raw, row);
  // A dry run gives it to its child (app/dry_run.cpp).
  command.add_option("--dry-run-in", raw.dry_run_in)->group("");
}

void add_network_options(CLI::App& command, std::string& interface, std::string& port_range) {
  for (const OptionRow& row : kTable) {
    if (row.group != kNetwork) continue;
    const bool is_interface = row.name == std::string_view("interface");
    const std::string help = help_of(row, is_interface ? "that, GLOO_SOCKET_IFNAME, the run's" : "the run's");
    command.add_option(str("--", row.name), is_interface ? interface : port_range, help)
        ->type_name(row.value);
  }
}

void show_essentials(CLI::App& command) {
  for (const OptionRow& row : kTable) {
    CLI::Option* option = command.get_option_no_throw(str("--", row.name));
    // Another command may have an option of that name in another group.
    const bool is_row = option != nullptr && option->get_group() == title_of(row.group);
    if (is_row && row.group != kEssential) option->group("");  // CLI11: not in the help
  }
}

}  // namespace rekindle::app
