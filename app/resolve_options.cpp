// Converts the given options to a job: sets defaults that depend on other options, and checks values that
// concern more than one option.
#include <algorithm>
#include <bit>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "app/resolver.hpp"
#include "base/duration.hpp"
#include "base/lists.hpp"
#include "base/nearest.hpp"
#include "base/text.hpp"
#include "data/dataset.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "protocol/job_reader.hpp"
#include "protocol/training.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostMicroBatches = 65536;

fs::path whole_path(const std::string& path) { return fs::absolute(path).lexically_normal(); }

}  // namespace

tl::unexpected<Error> Resolver::refuse(const Names& names, const std::string& what, const std::string& hint) {
  wrong_.insert(names.begin(), names.end());
  return fail(ExitCode::kUsage, what, hint);
}

Status Resolver::one_of(const std::string& name, const std::string& value,
                        const std::vector<std::string>& allowed) {
  if (std::ranges::find(allowed, value) != allowed.end()) return {};
  return refuse({name}, str("--", name, " ", value, " is not known"), did_you_mean(value, allowed));
}

Status Resolver::duration(std::uint64_t& milliseconds, const std::string& name, const std::string& text) {
  const auto value = parse_duration("--" + name, text);
  if (!value) {
    wrong_.insert(name);
    return forward_error(value.error());
  }
  milliseconds = static_cast<std::uint64_t>(value->count());
  return {};
}

Status Resolver::paths() {
  if (raw_.run_dir.empty()) return fail(ExitCode::kUsage, "no run directory", "add --run-dir DIR");
  options_.run_dir = whole_path(raw_.run_dir);
  options_.workers = raw_.workers;
  options_.change_lr = raw_.change_lr;
  options_.dry_run = raw_.dry_run;
  job_.strict = raw_.strict;
  if (!raw_.init.empty()) options_.init = whole_path(raw_.init);
  options_.reset_head = raw_.reset_head;
  job_.log_interval = raw_.log_interval;
  if (raw_.reset_head && raw_.init.empty())
    return refuse({"reset-head"}, "--reset-head without --init", "add --init FILE, or leave it out");
  return {};
}

template <class Known>
Result<Known> Resolver::find(std::vector<Known> KnownNames::*list, const std::string& name,
                             const char* option, const std::string& unknown) {
  for (const Known& each : known_.*list)
    if (each.name == name) return each;
  if (ask_ && !asked_) {
    REKINDLE_TRY(known_, ask_());
    asked_ = true;
    return find(list, name, option, unknown);
  }
  std::vector<std::string> names;
  for (const Known& each : known_.*list) names.push_back(each.name);
  return refuse({option}, unknown, did_you_mean(name, names));
}

Status Resolver::model_sizes(const KnownModel& model, const KnownDataset& dataset) {
  struct Size {
    const char* name;
    const std::optional<std::uint64_t>& given;
    std::uint64_t otherwise;
    std::uint64_t& value;
  };
  const Size sizes[] = {{"layers", raw_.layers, 4, job_.task.layers},
                        {"heads", raw_.heads, 4, job_.task.heads},
                        {"width", raw_.width, 256, job_.task.width}};
  for (const Size& size : sizes) {
    if (model.options.find(str("--", size.name)) != std::string::npos)
      size.value = size.given.value_or(size.otherwise);
    else if (size.given)
      return refuse(
          {size.name, "model"}, str("--", size.name, " is not an option of ", model.name),
          model.options.empty() ? "leave it out" : str("leave it out; ", model.name, " has ", model.options));
  }
  if (dataset.samples == data::SampleKind::kText)
    job_.task.context = raw_.context.value_or(256);
  else if (raw_.context)
    return refuse({"context", "dataset"}, str("--context is an option of text, not of ", job_.task.dataset),
                  "leave it out");
  return {};
}

Status Resolver::model_options(const KnownModel& model) {
  std::vector<std::string> known;
  for (const std::string& word : comma_separated(model.options)) {
    const std::string name = word.substr(std::min(word.find_first_not_of(' '), word.size()));
    if (!name.starts_with("--")) known.push_back(name);
  }
  std::set<std::string> given;
  for (const std::string& entry : comma_separated(raw_.model_options)) {
    const std::string name = entry.substr(0, entry.find('='));
    if (!given.insert(name).second)
      return refuse({"model-options"}, str("--model-options has ", name, " twice"), "give it once");
    if (entry.find('=') == std::string::npos || name.empty())
      return refuse({"model-options"}, str("--model-options ", entry, " has no value"),
                    "write NAME=VALUE,NAME=VALUE");
    if (known.empty())
      return refuse({"model-options", "model"}, str(model.name, " has no options of its own"),
                    "leave it out");
    if (std::ranges::find(known, name) == known.end())
      return refuse({"model-options", "model"}, str(model.name, " has no option ", name),
                    did_you_mean(name, known));
  }
  for (const auto& [name, value] : task::own_options(raw_.model_options))
    job_.task.model_options += str(job_.task.model_options.empty() ? "" : ",", name, "=", value);
  return {};
}

Status Resolver::augmentation(const KnownDataset& dataset) {
  const std::string& given = raw_.augment;
  if (!given.empty())
    REKINDLE_CHECK(one_of("augment", given, {"on", "off", "true", "false", "crop", "resized-crop"}));
  const bool usual = given.empty() || is_on(given);
  job_.task.augment = given == "false" ? "off" : usual ? data::name_of(dataset.augment) : given;
  if (dataset.augment == data::Augment::kOff && (is_on(given) || job_.task.augment != "off"))
    return refuse({"augment"}, str(job_.task.dataset, " has no augmentation"), "leave --augment out");
  job_.task.skip_corrupt = raw_.skip_corrupt;
  if (raw_.skip_corrupt && job_.task.dataset != data::kImageFolder.name)
    return refuse(
        {"skip-corrupt", "dataset"},
        str("--skip-corrupt is an option of ", data::kImageFolder.name, ", not of ", job_.task.dataset),
        "leave it out");
  return {};
}

Status Resolver::model_and_data() {
  job_.task.model = raw_.model;
  REKINDLE_TRY(const KnownModel model,
               find(&KnownNames::models, raw_.model, "model", str("unknown model '", raw_.model, "'")));
  const bool model_of_text = model.samples == data::SampleKind::kText;
  job_.task.dataset = !raw_.dataset.empty() ? raw_.dataset
                      : is_mnist_cnn()      ? "mnist"
                      : model_of_text       ? "text"
                                            : "cifar10";
  REKINDLE_TRY(const KnownDataset dataset, find(&KnownNames::datasets, job_.task.dataset, "dataset",
                                                str("--dataset ", job_.task.dataset, " is not known")));
  const bool text = dataset.samples == data::SampleKind::kText;
  if (text != model_of_text)
    return refuse({"dataset", "model"},
                  str(job_.task.model, text ? " trains on images, and " : " trains on text, and ",
                      job_.task.dataset, " has none"),
                  "use another --dataset");
  if (raw_.data.empty())
    return fail(ExitCode::kUsage, "no data",
                data::find_dataset(job_.task.dataset)
                    ? "add --data DIR, or make some: rekindle make-data " + job_.task.dataset + " DIR"
                    : "add --data DIR");
  job_.task.data = whole_path(raw_.data);
  if (text && raw_.image_size)
    return refuse({"image-size", "model"}, str("--image-size: ", job_.task.model, " trains on text"),
                  "leave it out");
  job_.task.classes = raw_.classes.value_or(0);
  job_.task.image_size = raw_.image_size.value_or(0);
  // A data set that is not built in may have a size of its own, which the trainer program knows.
  if (text || data::find_dataset(job_.task.dataset)) task::choose_image_size(job_.task, 0);
  REKINDLE_CHECK(model_sizes(model, dataset));
  REKINDLE_CHECK(model_options(model));
  REKINDLE_CHECK(augmentation(dataset));
  job_.task.dropout = raw_.dropout.value_or(-1);
  return {};
}

Status Resolver::seed_and_precision() {
  job_.seed = raw_.seed;
  REKINDLE_CHECK(one_of("precision", raw_.precision, protocol::precisions()));
  job_.precision = raw_.precision;
  return {};
}

Status Resolver::batch() {
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

Status Resolver::length() {
  if (raw_.steps && raw_.epochs)
    return refuse({"steps", "epochs"}, "--steps and --epochs are both given", "give one of them");
  if (!raw_.steps && !raw_.epochs)
    return fail(ExitCode::kUsage, "the run has no length", "add --steps N or --epochs N");
  job_.steps = raw_.steps.value_or(0);
  job_.epochs = raw_.epochs.value_or(0);
  return {};
}

Status Resolver::checkpoints_and_failures() {
  job_.checkpoint_every = raw_.checkpoint_every;
  REKINDLE_CHECK(duration(job_.checkpoint_interval_ms, "checkpoint-interval", raw_.checkpoint_interval));
  job_.keep = raw_.keep;
  job_.keep_best = raw_.keep_best;
  job_.evaluate_every = raw_.evaluate_every;
  REKINDLE_CHECK(best_metric());
  job_.hash_every = raw_.hash_every;
  options_.own_gather_time = !raw_.gather_time.empty();
  if (options_.own_gather_time)
    REKINDLE_CHECK(duration(job_.gather_time_ms, "gather-time", raw_.gather_time));
  REKINDLE_CHECK(duration(job_.lost_after_ms, "lost-after", raw_.lost_after));
  REKINDLE_CHECK(duration(job_.hang_after_ms, "hang-after", raw_.hang_after));
  for (const auto& [name, milliseconds] :
       {std::pair("lost-after", job_.lost_after_ms), std::pair("hang-after", job_.hang_after_ms)})
    if (milliseconds < 1000)
      return refuse({name}, str("--", name, " is less than a second"),
                    "a busy machine may need longer for a heartbeat");
  REKINDLE_CHECK(duration(job_.data_wait_ms, "data-wait", raw_.data_wait));
  if (!raw_.stop_within.empty())
    REKINDLE_CHECK(duration(job_.stop_within_ms, "stop-within", raw_.stop_within));
  return {};
}

Status Resolver::watching() {
  WatcherOptions& watchers = options_.watchers;
  watchers.status_port = raw_.status_port;
  watchers.status_bind = raw_.status_bind;
  for (std::size_t begin = 0; begin < raw_.allow_host.size();) {
    const std::size_t end = std::min(raw_.allow_host.find(',', begin), raw_.allow_host.size());
    watchers.allowed_hosts.push_back(raw_.allow_host.substr(begin, end - begin));
    begin = end + 1;
  }
  watchers.status_html = raw_.status_html.empty() ? "" : std::filesystem::absolute(raw_.status_html).string();
  watchers.metrics_bind = raw_.metrics_bind;
  watchers.metrics_token_file = raw_.metrics_token_file;
  if (!raw_.metrics_targets.empty())
    watchers.metrics_targets = std::filesystem::absolute(raw_.metrics_targets).string();
  watchers.metrics_open = raw_.metrics_open;
  watchers.tensorboard = raw_.tensorboard;
  watchers.on_event = raw_.on_event;
  if (watchers.metrics_bind.empty() &&
      (watchers.metrics_open || !watchers.metrics_token_file.empty() || !watchers.metrics_targets.empty()))
    return fail(ExitCode::kUsage, "without --metrics-bind no /metrics is served",
                "add --metrics-bind ADDRESS:PORT");
  if (auto checked = board_arguments(watchers); !checked) {
    wrong_.insert("metrics-bind");
    return forward_error(checked.error());
  }
  if (!raw_.dry_run_in.empty()) watchers = {};  // nobody is told of its steps
  return {};
}

Status Resolver::network() {
  job_.interface = or_from_environment(raw_.interface);
  job_.port_range = raw_.port_range;
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

Result<LocalOptions> resolve_options(const RawOptions& raw, const AskNames& ask, std::set<std::string>& wrong,
                                     const ScriptDescription* script) {
  return Resolver(raw, ask, wrong, script).resolve();
}

}  // namespace rekindle::app
