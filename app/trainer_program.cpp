// A trainer program: one replica on one device. Only these programs have LibTorch.
#include <sys/prctl.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "app/describe.hpp"
#include "app/evaluate.hpp"
#include "app/part_options.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/trainer_question.hpp"
#include "app/trainer_start.hpp"
#include "base/files.hpp"
#include "base/lifeline.hpp"
#include "base/lines.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "checkpoint/tensor_file.hpp"
#include "model/allocator.hpp"
#include "model/evaluation.hpp"
#include "model/machine.hpp"
#include "model/model_task.hpp"
#include "rekindle/trainer.hpp"
#include "run/layout.hpp"
#include "trainer/process.hpp"

namespace rekindle::app {
namespace {

using model::MoreRows;

// Two rows with one name: a run directory could mean either.
template <class Rows>
Status check_names(Rows rows, std::vector<std::string> names, const char* what) {
  for (const auto* row : rows) {
    if (std::ranges::count(names, std::string(row->name)) > 1)
      return fail(ExitCode::kUsage, str("there are two ", what, " with the name '", row->name, "'"),
                  "give your own another name");
  }
  return {};
}

Status check_rows(const MoreRows& more) {
  REKINDLE_CHECK(check_names(more.models, model::names_of_models(more.models), "models"));
  return check_names(more.datasets, data::names_of_datasets(more.datasets), "data sets");
}

nlohmann::json names_to_json(const MoreRows& more) {
  nlohmann::json models = nlohmann::json::array(), datasets = nlohmann::json::array();
  for (const model::ModelRows rows : {model::models(), more.models})
    for (const model::ModelRow* row : rows)
      models.push_back({{"name", row->name},
                        {"what", row->what},
                        {"samples", name_of(row->samples)},
                        {"options", row->options}});
  for (const data::DatasetRows rows : {data::datasets(), more.datasets})
    for (const data::DatasetRow* row : rows)
      datasets.push_back({{"name", row->name},
                          {"what", row->what},
                          {"samples", name_of(row->samples)},
                          {"augment", data::name_of(row->augment)}});
  return {{"models", models}, {"datasets", datasets}};
}

std::optional<protocol::Job> job_in(const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<protocol::Job>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

// The run has not begun: what fails now is not tried again, as in a trainer. An exception of a model's code
// has no code of its own.
nlohmann::json refusal(Error error) {
  if (error.code == ExitCode::kGaveUp) error.code = ExitCode::kConfig;
  return error_to_json(error);
}

// `describe`, see app/describe.hpp.
nlohmann::json describe(const std::vector<std::string>& question, const MoreRows& more) {
  if (question.empty()) return names_to_json(more);
  const auto job = job_in(question[0]);
  if (!job || question.size() > 2)
    return error_to_json({ExitCode::kUsage, "describe needs a job as JSON, and the images' channels",
                          "it is called by rekindle"});
  if (question.size() == 2) {
    const auto state = model::describe(*job, std::atoi(question[1].c_str()), more);
    return state ? description_to_json(state->tensors, state->other_names) : refusal(state.error());
  }
  const auto described = model::describe_with_data(*job, more);
  if (!described) return refusal(described.error());
  auto description = description_to_json(described->state.tensors, described->state.other_names);
  add_to_json(description, described->data);
  return description;
}

nlohmann::json evaluation_to_json(const model::Evaluation& evaluation) {
  const auto sum = [](const trainer::MetricSum& of) -> nlohmann::json {
    return {{"sum", of.sum}, {"count", of.count}};
  };
  nlohmann::json metrics = nlohmann::json::array(), classes = nlohmann::json::array();
  for (std::size_t i = 0; i < evaluation.metrics.size(); ++i) {
    metrics.push_back(sum(evaluation.sums.metrics[i]));
    metrics.back()["name"] = evaluation.metrics[i];
  }
  for (std::size_t i = 0; i < evaluation.classes.size(); ++i) {
    const auto& names = evaluation.data.class_names;
    classes.push_back({{"name", i < names.size() ? names[i] : str(i)},
                       {"count", evaluation.classes[i].count},
                       {"correct", evaluation.classes[i].correct}});
  }
  return {{"samples", name_of(evaluation.data.samples)},
          {"test_count", evaluation.data.test_count},
          {"loss", sum(evaluation.sums.loss)},
          {"metrics", metrics},
          {"classes", classes},
          {"skipped", evaluation.skipped},
          {"content_hash", evaluation.data.content_hash},
          {"earlier_hash", evaluation.data.earlier_hash},
          {"change", evaluation.data.change}};
}

int print_answer(const nlohmann::json& answer) {
  // On a line of its own, whatever a model has printed.
  std::cout.flush();
  std::printf("\n%s\n", answer.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
  std::fflush(stdout);  // a pipe: lines about progress must not wait
  return 0;
}

// `evaluate-tensors`, see app/evaluate.hpp. The tensors are on stdin, a memory file.
nlohmann::json evaluate(const std::vector<std::string>& question, const MoreRows& more) {
  const auto job = question.size() == 3 ? job_in(question[0]) : std::nullopt;
  if (!job)
    return error_to_json({ExitCode::kUsage, "evaluate-tensors needs a job, a batch size and a name",
                          "it is called by rekindle"});
  const auto tensors = checkpoint::SafetensorsFile::open("/proc/self/fd/0");
  if (!tensors) return error_to_json(tensors.error());
  const auto batch = static_cast<std::size_t>(std::max(1LL, std::atoll(question[1].c_str())));
  auto said = std::chrono::steady_clock::now();
  const auto say_progress = [&said](std::size_t count, std::size_t of) {
    const auto now = std::chrono::steady_clock::now();
    if (now - said < std::chrono::seconds(1)) return;
    said = now;
    print_answer({{"evaluated", count}, {"of", of}});
  };
  const auto done = model::evaluate(*job, {tensors->source(), question[2]}, batch, say_progress, more);
  return done ? evaluation_to_json(*done) : error_to_json(done.error());
}

// An exception, also one of a model or a data set of one's own, would end the process without an answer.
int answer(nlohmann::json (*how)(const std::vector<std::string>&, const MoreRows&), const char* what,
           const std::vector<std::string>& words, const MoreRows& more) {
  const std::vector<std::string> question(words.begin() + 1, words.end());
  try {
    return print_answer(how(question, more));
  } catch (const std::bad_alloc&) {
    return print_answer(
        error_to_json({ExitCode::kConfig, str("there is not enough memory to ", what),
                       "use a smaller --batch-size or fewer --threads, or give the job more memory"}));
  } catch (const std::exception& error) {
    return print_answer(
        error_to_json({ExitCode::kConfig, str("cannot ", what, ": ", line_of_exception(error.what())),
                       "look at the model and the data set, or try fewer --threads or --device cpu"}));
  }
}

int train(int argc, char** argv, const MoreRows& more) {
  StartedTrainer started;
  if (const auto code = start_trainer(argc, argv, "/proc/self/exe", started)) return *code;
  const auto make_task = [&more](const protocol::Job& of) { return model::make_model_task(of, more); };
  if (auto status = trainer::run_trainer(*started.config, make_task, Fd(kInheritedFd)); !status)
    ::_exit(static_cast<int>(status.error().code));
  ::_exit(0);  // LibTorch's own teardown takes most of a second and is not needed
}

// Whether a worker (or another launcher) starts a trainer: only the options of a trainer begin with dashes.
bool is_for_a_trainer(const std::string& first) {
  return first.starts_with("--") && !first.starts_with("--help") && first != "--version";
}

// A run has one build: the static libraries in this program, and the programs of the package.
Status check_package(const Package& package) {
  const std::filesystem::path programs = package.programs;
  const auto build = read_text(programs / "build", run::kMostOfANote);
  if (!build)
    return fail(ExitCode::kConfig,
                str("the rekindle that this program was built with is not in ", programs.string()),
                "was it moved or removed? Configure and build this program again");
  if (*build == package.build) return {};
  return fail(
      ExitCode::kConfig,
      str("the rekindle in ", programs.string(), " is not the build that this program was built with"),
      "configure and build this program again");
}

int main(int argc, char** argv, const MoreRows& more, const Package& package) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const std::string first = words.empty() ? "" : words.front();
  if (auto right = model::check_torch(); !right) return report(right.error());
  if (auto different = check_rows(more); !different) return report(different.error());
  if (first == "describe") return answer(describe, "describe the run", words, more);
  if (first == kEvaluateTensors) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return answer(evaluate, "evaluate", words, more);
  }
  if (*package.programs == '\0' || is_for_a_trainer(first)) return train(argc, argv, more);
  if (auto right = check_package(package); !right) return report(right.error());
  return report(become_front_end(package.programs, words));
}

}  // namespace
}  // namespace rekindle::app

int rekindle::trainer_main(int argc, char** argv, const Extensions& more, const Package& package) {
  model::tune_allocator();  // before the first large allocation
  return app::main(argc, argv, {more.models, more.datasets}, package);
}
