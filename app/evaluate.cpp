#include "app/evaluate.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "app/describe.hpp"
#include "app/given_tensors.hpp"
#include "app/kept_program.hpp"
#include "app/options.hpp"
#include "app/places.hpp"
#include "app/print_json.hpp"
#include "app/progress.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/script.hpp"
#include "app/trainer_question.hpp"
#include "base/files.hpp"
#include "base/processors.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "protocol/describe.hpp"
#include "protocol/job_reader.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::Job;

namespace {

constexpr std::chrono::hours kLimit{480};
constexpr std::string_view kOptionsOfARun[] = {"data",       "model",     "dataset",      "device",
                                               "image-size", "precision", "layers",       "heads",
                                               "width",      "context",   "skip-corrupt", "model-options"};

struct Sum {
  double sum = 0;
  std::uint64_t count = 0;
  double mean() const { return sum / static_cast<double>(count); }  // not a number without samples
};

struct ClassResult {
  std::string name;
  std::uint64_t count = 0, correct = 0;
};

struct Answer {
  std::string samples;
  std::uint64_t test_count = 0;
  Sum loss;
  std::vector<std::pair<std::string, Sum>> metrics;
  std::vector<ClassResult> classes;
  std::vector<std::string> skipped = {};  // the error of each image that another one has replaced
  // As in data::DatasetInfo; empty: not known.
  std::string content_hash = {}, earlier_hash = {}, change = {};
};

// The options that make the model of a checkpoint; only the data, and how they are computed, may be given.
Status take_identity(const std::string& identity, const EvaluateOptions& options, RawOptions& raw,
                     std::string& data_hash) {
  constexpr const char* kOfTheModel[] = {"model", "image-size", "precision", "layers",
                                         "heads", "width",      "context",   "model-options"};
  for (const char* name : kOfTheModel) {
    if (options.given.contains(name))
      return fail(ExitCode::kUsage, str("--", name, " with a checkpoint, which knows its model"),
                  "leave it out");
  }
  REKINDLE_TRY(const Job job, protocol::job_from_text(identity, options.source.string()));
  const auto size = [](std::uint64_t value) { return value > 0 ? std::optional(value) : std::nullopt; };
  raw.model = job.task.model;
  if (!options.given.contains("dataset")) raw.dataset = job.task.dataset;
  if (job.task.context == 0) raw.image_size = size(job.task.image_size);  // else of a model of text
  raw.seed = job.seed;
  raw.batch_size = job.batch_size;
  raw.micro_batches = job.micro_batches;
  raw.precision = job.precision;
  if (raw.precision == "tf32" && (raw.device == "cpu" || !kCudaModels || !has_gpu())) raw.precision = "fp32";
  raw.classes = size(job.task.classes);
  raw.layers = size(job.task.layers);
  raw.heads = size(job.task.heads);
  raw.width = size(job.task.width);
  raw.context = size(job.task.context);
  raw.model_options = job.task.model_options;
  if (job.task.dropout >= 0) raw.dropout = job.task.dropout;
  raw.skip_corrupt = raw.skip_corrupt || (job.task.skip_corrupt && raw.dataset == job.task.dataset);
  data_hash = job.task.data_hash;
  return {};
}

bool is_of_script(const Given& given) {
  return given.manifest && json::parse(given.manifest->identity, nullptr, false).contains("trainer");
}

// Its own run knows the script, which is executed: the run directory has to be this user's.
Result<Job> job_of_script(const EvaluateOptions& options) {
  for (const std::string_view name : kOptionsOfARun) {
    if (options.given.contains(std::string(name)))
      return fail(ExitCode::kUsage, str("--", name, " with a run of a script"),
                  "the script itself decides that: leave it out");
  }
  const fs::path run = run_of(options.source);
  if (run.empty())
    return fail(ExitCode::kConfig,
                str(options.source.string(), " is a checkpoint of a script, without its run"),
                "in Python, rekindle.load() reads it");
  const run::Layout layout(fs::absolute(run));
  REKINDLE_TRY(Job job, read_job(layout.config()));
  REKINDLE_CHECK(use_copy_of_script(job, layout));
  job.threads = options.threads.value_or(processors());
  return job;
}

Result<Job> job_of(const EvaluateOptions& options, const Given& given, const fs::path& own_trainer) {
  if (is_of_script(given)) return job_of_script(options);
  RawOptions raw = options.raw_options;
  std::string data_hash;
  if (given.manifest) REKINDLE_CHECK(take_identity(given.manifest->identity, options, raw, data_hash));
  if (const fs::path run = run_of(options.source); raw.data.empty() && !run.empty()) {
    REKINDLE_TRY(const Job job, read_job(run::Layout(run, Trust::kForeign).config()));
    raw.data = job.task.data;
  }
  if (raw.data.empty())
    return fail(ExitCode::kUsage, "no data", "add --data PATH, the data set with the test samples");
  // Not used, but an option of every run.
  raw.run_dir = "/";
  raw.steps = 1;
  raw.threads = options.threads.value_or(processors());
  std::set<std::string> wrong;
  REKINDLE_TRY(LocalOptions resolved, resolve_options(
                                          raw, [&own_trainer] { return ask_names(own_trainer); }, wrong));
  REKINDLE_CHECK(check_device(resolved.job));
  resolved.job.task.data_hash = data_hash;
  return std::move(resolved.job);
}

// JSON has no number that is not finite: null. One such weight is enough.
Sum sum_from(const json& object) {
  const json& sum = object.at("sum");
  return {sum.is_null() ? std::numeric_limits<double>::quiet_NaN() : sum.get<double>(),
          object.at("count").get<std::uint64_t>()};
}

Answer answer_from(const json& object) {
  Answer answer{object.at("samples").get<std::string>(),
                object.at("test_count").get<std::uint64_t>(),
                sum_from(object.at("loss")),
                {},
                {}};
  for (const json& metric : object.at("metrics"))
    if (const Sum sum = sum_from(metric); sum.count > 0)  // as in a run: without values it is not reported
      answer.metrics.emplace_back(metric.at("name").get<std::string>(), sum);
  for (const json& each : object.at("classes"))
    answer.classes.push_back({each.at("name").get<std::string>(), each.at("count").get<std::uint64_t>(),
                              each.at("correct").get<std::uint64_t>()});
  // A script has none of these.
  answer.skipped = object.value("skipped", answer.skipped);
  answer.content_hash = object.value("content_hash", "");
  answer.earlier_hash = object.value("earlier_hash", "");
  answer.change = object.value("change", "");
  return answer;
}

// Those of a micro-batch: a loss that is no mean over samples, or draws random numbers, is as the run has it.
// That of a built-in model is the same for any number.
std::uint64_t samples_at_a_time(const Job& job, const Given& given, const EvaluateOptions& options,
                                const fs::path& own_trainer) {
  constexpr std::uint64_t kUsual = 64;
  const bool as_the_run =
      given.manifest && (is_script(job) || !own_trainer.empty() || has_kept_own_trainer());
  return options.batch_size.value_or(as_the_run ? job.batch_size / job.micro_batches : kUsual);
}

Result<Answer> ask(const Job& job, const Given& given, const EvaluateOptions& options,
                   const fs::path& own_trainer) {
  ProgressView view(stderr);
  TrainerQuestion question{
      .limit = kLimit, .in = given.tensors.get(), .on_answer = evaluation_shown_by(view)};
  const std::uint64_t samples = samples_at_a_time(job, given, options, own_trainer);
  if (is_script(job)) {
    json about = job;
    about["evaluate_at_a_time"] = samples;
    question.words = {"--evaluate", job.task.script_folder, job.task.script, about.dump()};
    question.words.insert(question.words.end(), job.task.script_arguments.begin(),
                          job.task.script_arguments.end());
  } else {
    question.words = {kEvaluateTensors, json(job).dump(), str(samples), options.source.string()};
  }
  const auto lines = is_script(job) ? ask_script(job, question) : ask_trainer(own_trainer, question);
  view.clear();
  if (!lines) return forward_error(lines.error());
  return read_answer(*lines, answer_from);
}

double share(const ClassResult& of) {
  return static_cast<double>(of.correct) / static_cast<double>(of.count);
}

json to_json(const Answer& answer, const Given& given, const Job& job, const EvaluateOptions& options) {
  json result = {
      {"source", options.source.string()}, {"test_count", answer.test_count}, {"loss", answer.loss.mean()}};
  if (is_script(job))
    result["script"] = job.task.script;
  else
    result.update({{"model", job.task.model}, {"dataset", job.task.dataset}, {"data", job.task.data}});
  if (given.manifest) result.update({{"step", given.manifest->id.step}, {"digest", given.manifest->digest}});
  if (given.manifest || given.averaged) result["ema"] = given.averaged;
  for (const auto& [name, sum] : answer.metrics) result[name] = sum.mean();
  if (job.task.skip_corrupt) result["skipped"] = answer.skipped.size();
  if (!options.per_class) return result;
  result["classes"] = json::array();
  for (const ClassResult& each : answer.classes)
    result["classes"].push_back({{"name", each.name},
                                 {"count", each.count},
                                 {"accuracy", each.count > 0 ? json(share(each)) : json()}});
  return result;
}

void say_classes(const std::vector<ClassResult>& classes) {
  std::size_t width = std::string_view("class").size();
  for (const ClassResult& each : classes) width = std::max(width, count_characters(printable(each.name)));
  const auto line = [width](const std::string& name, const std::string& count, const std::string& accuracy) {
    std::printf("%s  %8s  %8s\n", padded(printable(name), width).c_str(), count.c_str(), accuracy.c_str());
  };
  line("class", "samples", "accuracy");
  for (const ClassResult& each : classes) {
    char text[16] = "-";
    if (each.count > 0) std::snprintf(text, sizeof text, "%.2f %%", 100 * share(each));
    line(each.name, str(each.count), text);
  }
}

void say_answer(const Answer& answer, const Given& given, const Job& job, const EvaluateOptions& options) {
  std::string what = options.source.string();
  if (given.manifest) what += str(", step ", given.manifest->id.step);
  if (given.averaged) what += ", the moving average";
  say(str(what, ", on ", answer.test_count, " test ",
          answer.samples == name_of(data::SampleKind::kText) ? "contexts" : answer.samples, " of ",
          is_script(job) ? job.task.script : job.task.data));
  std::string line = protocol::metric_text("loss", answer.loss.mean());
  for (const auto& [name, sum] : answer.metrics) line += ", " + protocol::metric_text(name, sum.mean());
  say(line);
  if (!answer.skipped.empty())
    say(str(
        answer.skipped.size(),
        " test images cannot be decoded, and others took their places; the first: ", answer.skipped.front()));
  if (options.per_class && answer.classes.empty())
    say("no accuracy of classes: the model's outputs are not classes");
  else if (options.per_class)
    say_classes(answer.classes);
}

// Other data than those of the run may be evaluated, but not in silence.
void warn_of_other_data(const Answer& answer, const Job& job, const EvaluateOptions& options) {
  if (options.given.contains("data") || answer.content_hash.empty() || job.task.data_hash.empty() ||
      answer.content_hash == job.task.data_hash)
    return;
  const bool known = answer.earlier_hash == job.task.data_hash && !answer.change.empty();
  warn(str("warning: the data in ", job.task.data, " are not what the run was trained with",
           known ? ": " : "", known ? answer.change : ""));
}

}  // namespace

void add_evaluation_options(CLI::App& command, RawOptions& raw) {
  for (const OptionRow& row : option_table()) {
    if (std::ranges::find(kOptionsOfARun, row.name) != std::end(kOptionsOfARun)) row.add(command, raw, row);
  }
}

Status evaluate(const EvaluateOptions& options, const fs::path& own_trainer) {
  if (!path_exists(options.source))
    return fail(ExitCode::kConfig, str(options.source.string(), ": no such file or directory"),
                "give a run directory, a checkpoint or a file");
  const bool is_file = !is_folder(options.source);
  REKINDLE_TRY(const Given given, is_file ? take_file(options) : take_checkpoint(options));
  REKINDLE_TRY(const Job job, job_of(options, given, own_trainer));
  if (options.per_class && (job.task.context > 0 || is_script(job)))
    return fail(ExitCode::kUsage, "--per-class on samples that have no class", "leave it out");
  REKINDLE_TRY(const Answer answer, ask(job, given, options, own_trainer));
  warn_of_other_data(answer, job, options);
  if (options.json)
    print_json(to_json(answer, given, job, options));
  else
    say_answer(answer, given, job, options);
  return {};
}

}  // namespace rekindle::app
