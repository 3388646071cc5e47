#include "app/script.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/describe.hpp"
#include "app/kept_program.hpp"
#include "app/option_table.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/script_copy.hpp"
#include "app/spellings.hpp"
#include "app/trainer_question.hpp"
#include "base/command.hpp"
#include "base/files.hpp"
#include "base/lines.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "checkpoint/state_check.hpp"
#include "protocol/training.hpp"
#include "trainer/host_state.hpp"
#include "trainer/update_options.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

// A data set may be read completely, or downloaded.
constexpr std::chrono::hours kLimit{480};  // a test data set may be large
// The interpreter of the script. rekindle.run() and the program of the Python package set it.
constexpr const char* kPythonVariable = "REKINDLE_PYTHON";
// An image that `evaluate` and `audit` may use although it belongs to another user.
constexpr const char* kContainerVariable = "REKINDLE_CONTAINER";

// Whether `next`, the next word of the command line, is the value of the option `word`. An unknown option is
// told later, and `submit` also takes sbatch's.
bool takes_value(const std::string& word, const std::string& next) {
  if (word.find('=') != std::string::npos) return false;
  const std::string name = usual_name(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  const auto rows = option_table();
  const auto row = std::ranges::find(rows, name, &OptionRow::name);
  if (row != rows.end()) return *row->value != '\0';
  constexpr std::string_view kFlags[] = {"print", "from-scratch", "help", "help-all"};
  return std::ranges::find(kFlags, name) == std::end(kFlags) && !next.ends_with(".py");
}

ScriptDescription description_from(const nlohmann::json& answer) {
  ScriptDescription description;
  for (const auto& [name, value] : answer.at("options").items())
    description.options.emplace_back(name, value.get<std::string>());
  for (const auto& tensor : answer.at("tensors")) description.model.push_back(tensor_from_json(tensor));
  description.metrics = answer.at("metrics").get<std::vector<std::string>>();
  description.metrics_known = answer.value("metrics_known", true);
  description.tied = answer.at("tied").get<std::vector<std::string>>();
  description.train_samples = answer.at("train_samples").get<std::uint64_t>();
  description.test_samples = answer.at("test_samples").get<std::uint64_t>();
  description.has_gpu = answer.at("has_gpu").get<bool>();
  description.no_gpu = answer.at("no_gpu").get<std::string>();
  description.build = answer.value("build", "");
  return description;
}

// An interpreter that PYTHONPATH does not reach finds another package, in an image for example. All trainers
// would have that build, so their fingerprints would agree.
Status check_build(const std::string& imported, const protocol::Job& job) {
  const fs::path package = python_package();
  if (package.empty()) return {};
  REKINDLE_TRY(const std::string own, build_of(package / "librekindle.so"));
  if (imported == own) return {};
  return fail(ExitCode::kConfig,
              str(job.task.python, job.container.empty() ? "" : str(" in ", job.container),
                  " has another build of rekindle (", imported.empty() ? "of an earlier version" : imported,
                  ") than this one (", own, ")"),
              "PYTHONPATH, which names the package of this one, does not reach it: does it, or the image, "
              "change this variable?");
}

}  // namespace

Script take_script(std::vector<std::string>& arguments) {
  Script script;
  for (std::size_t i = 2; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (arguments[i].empty()) continue;  // main() refuses it
    if (arguments[i].starts_with("-")) {
      if (i + 1 < arguments.size() && takes_value(arguments[i], arguments[i + 1])) ++i;
      continue;
    }
    script.file = fs::absolute(arguments[i]).lexically_normal();
    const auto begin = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = arguments[1] == "submit" ? std::find(begin, arguments.end(), "--") : arguments.end();
    script.arguments.assign(begin + 1, end);
    arguments.erase(begin, end);
    script.folder = script.file.parent_path();
    break;
  }
  const fs::path kept = program_path(kKeptScript) / script.file.filename();
  if (script.file.empty() || !is_file(kept)) return script;
  warn_of_kept_script(script.file, kept);
  script.file = kept;
  return script;
}

namespace {
// Another user could have made an image that is a file, as an interpreter.
Status check_image(const protocol::Job& job, const run::Layout& layout) {
  const auto image = look_at(FilePath(job.container));
  if (!image || !*image || (!others_own(**image) && !others_can_write(**image)) ||
      job.container == environment_variable(kContainerVariable))
    return {};
  return fail(ExitCode::kConfig,
              str(layout.config().string(), " names the container image ", job.container,
                  ", which another user could have made"),
              str("if you trust it: export ", kContainerVariable, "=", job.container));
}

// The interpreter that the run had may be gone, as after its environment was made anew in another place.
Status use_present_interpreter(protocol::Job& job, const run::Layout& layout) {
  if (path_exists(job.task.python)) return {};
  const std::string named = environment_variable(kPythonVariable);
  const fs::path other = named.empty() ? fs::path() : program_on_path(named);
  if (other.empty() || !path_exists(other))
    return fail(
        ExitCode::kConfig,
        str("there is no ", job.task.python, ", the interpreter that ", layout.config().string(), " names"),
        str("export ", kPythonVariable, "=PYTHON, one that has the same torch"));
  warn(str("warning: there is no ", job.task.python, ", with which the run was trained: ", kPythonVariable,
           ", ", other.string(), ", runs the script in its place"));
  job.task.python = other;
  return {};
}
}  // namespace

Status use_copy_of_script(protocol::Job& job, const run::Layout& layout) {
  if (!is_script(job)) return {};
  const FilePath copy = copy_of_script(job, layout);
  if (!is_file(copy.path()))
    return fail(ExitCode::kConfig, str("there is no ", copy.string(), ", a copy of the run's script"),
                "only this copy is executed: see docs/security.md");
  job.task.script = copy.path();
  if (!job.container.empty()) return check_image(job, layout);  // the interpreter is the image's
  REKINDLE_CHECK(use_present_interpreter(job, layout));
  const auto python = open_file(job.task.python, O_RDONLY);  // behind links: environments have one
  struct stat info {};
  if (python && ::fstat(python->get(), &info) == 0 && (others_own(info) || others_can_write(info)) &&
      job.task.python != environment_variable(kPythonVariable))
    return fail(ExitCode::kConfig,
                str(layout.config().string(), " names the interpreter ", job.task.python,
                    ", which another user could have made"),
                str("if you trust it: export ", kPythonVariable, "=", job.task.python));
  return {};
}

Result<std::string> ask_script(const protocol::Job& job, const TrainerQuestion& question) {
  const Contained with = contained(
      container_of(job), {fs::path(job.task.script).parent_path(), job.task.script_folder}, has_gpu());
  if (!with.srun_options.empty() && question.words.front() == "--evaluate")
    return fail(ExitCode::kConfig, "a run with --container-runtime srun cannot be evaluated",
                "in Python, rekindle.load() reads its checkpoints");
  if (!with.srun_options.empty() && environment_variable("SLURM_JOB_ID").empty())
    return fail(ExitCode::kConfig,
                "--container-runtime srun: the script cannot be asked here, outside of a job",
                "write a batch script with exec rekindle slurm, or use --container-runtime apptainer");
  std::vector<std::string> argv = with.program;
  if (!with.srun_options.empty()) {
    // Of a job's --gpus, a step on one of several nodes would have to get all.
    const bool of_all =
        !environment_variable("SLURM_GPUS").empty() && environment_variable("SLURM_JOB_NUM_NODES") != "1";
    if (of_all) argv = {"env", "-u", "SLURM_GPUS", "-u", "SLURM_NTASKS_PER_GPU"};
    argv.insert(argv.end(), {"srun", "--nodes=1", "--ntasks=1", "--overlap"});
    if (of_all) argv.emplace_back("--gpus-per-node=1");
    argv.insert(argv.end(), with.srun_options.begin(), with.srun_options.end());
  }
  const std::vector<std::string> trainer = task::python_trainer(job.task);
  argv.insert(argv.end(), trainer.begin(), trainer.end());
  argv.insert(argv.end(), question.words.begin(), question.words.end());
  CommandSetting setting;
  setting.in = question.in;
  setting.on_output = question.on_answer;
  setting.environment = {{"PYTHONHASHSEED", "0"}};
  for (const std::string& entry : with_python_package(own_environment())) {
    for (const char* name : {"PYTHONPATH", kPackageFolder})
      if (const std::string begin = str(name, "="); entry.starts_with(begin))
        setting.environment.emplace_back(name, entry.substr(begin.size()));
  }
  REKINDLE_TRY(CommandOutput output, run_command(argv, question.limit, setting));
  if (output.ok()) return std::move(output.out);
  if (question.on_answer) question.on_answer("");
  std::fputs(output.err.c_str(), stderr);
  const bool answered = !output.status.by_signal && output.status.code == static_cast<int>(ExitCode::kUsage);
  if (answered) return std::move(output.out);
  const bool modules_gone = !is_folder(job.task.script_folder);
  return fail(
      ExitCode::kConfig,
      str(question.words[2], " cannot be ",
          question.words.front() == "--evaluate" ? "evaluated: " : "trained: ",
          output.status.by_signal ? str("signal ", output.status.code) : last_line_of(output.err)),
      str("it was run by ", job.task.python, " up to its rekindle.run()",
          modules_gone ? str("; ", job.task.script_folder, ", where its modules were, is gone") : ""));
}

Result<ScriptDescription> describe_script(const Script& script) {
  if (!is_file(script.file))
    return fail(ExitCode::kUsage, str("there is no script ", script.file.string()),
                "what stands behind the options is a Python script, and then the script's own arguments");
  // The variable names an interpreter outside; in a container, the name is searched there.
  const bool contained = !script.container.image.empty();
  const std::string named =
      !script.python.empty() || contained ? script.python : environment_variable(kPythonVariable);
  protocol::Job job;
  set_container(job, script.container);
  job.task.script = script.file;
  job.task.script_folder = script.folder;
  REKINDLE_CHECK(check_container(script.container, {}, job));
  const std::string name = named.empty() ? "python3" : named;
  const fs::path python = contained ? fs::path(name) : program_on_path(name);
  if (!contained && (python.empty() || !path_exists(python)))
    return fail(ExitCode::kConfig, str("there is no ", named.empty() ? "python3 on PATH" : named),
                "activate the environment that has torch and rekindle");
  const std::string given =
      nlohmann::json(script.given).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::vector<std::string> question = {"--describe", script.folder, script.file, script.seed, given};
  question.insert(question.end(), script.arguments.begin(), script.arguments.end());
  job.task.python = python;
  REKINDLE_TRY(const std::string answer, ask_script(job, {std::move(question), kLimit}));
  REKINDLE_TRY(ScriptDescription description, read_answer(answer, description_from));
  REKINDLE_CHECK(check_build(description.build, job));
  description.python = python;
  return description;
}

checkpoint::StateSpec model_of(const checkpoint::StateSpec& tensors) {
  return {tensors.begin(),
          std::ranges::find(tensors, checkpoint::Role::kOptimizer, &checkpoint::TensorSpec::role)};
}

Result<checkpoint::StateSpec> state_of_script(const protocol::Job& job,
                                              const checkpoint::StateSpec& tensors) {
  const checkpoint::StateSpec model = model_of(tensors);
  const trainer::StateLayout layout(model);
  REKINDLE_TRY(const trainer::UpdateOptions options, trainer::update_options(job, layout));
  REKINDLE_TRY(const trainer::UpdatePlan plan, trainer::UpdatePlan::make(layout, options));
  checkpoint::StateSpec state = trainer::spec_of_state(layout, plan, job.ema > 0);
  if (job.optimizer == protocol::kScriptsOptimizer)
    state.insert(state.end(), tensors.begin() + static_cast<std::ptrdiff_t>(model.size()), tensors.end());
  REKINDLE_CHECK(checkpoint::check_spec(state));
  return state;
}

}  // namespace rekindle::app
