#include "app/submit.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "app/kept_program.hpp"
#include "app/places.hpp"
#include "app/prepare.hpp"
#include "app/report.hpp"
#include "app/script_copy.hpp"
#include "app/slurm_job.hpp"
#include "app/submit_checks.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"
#include "slurm/commands.hpp"
#include "slurm/environment.hpp"
#include "slurm/programs.hpp"
#include "slurm/sbatch_options.hpp"
#include "slurm/script.hpp"
#include "view/runs.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

// Makes the folders of the job's output: without them the job fails without a message. A --chdir may be a
// folder of the nodes alone.
Status make_output_folders(const std::vector<std::string>& sbatch_arguments) {
  const fs::path directory = slurm::option_value(sbatch_arguments, "--chdir", 'D').value_or("");
  for (const auto& [name, letter] : {std::pair("--output", 'o'), std::pair("--error", 'e')}) {
    const fs::path file = slurm::option_value(sbatch_arguments, name, letter).value_or("");
    if (file.parent_path().empty()) continue;
    if (file.is_relative() && !directory.empty() && !is_folder(directory)) continue;
    const fs::path folder = slurm::without_patterns(directory / file.parent_path());
    if (!folder.empty()) REKINDLE_CHECK(make_directories(folder));
  }
  return {};
}

// Replaces %A, %a and %j by a number, because no job exists yet.
std::string without_job(const std::string& argument) {
  slurm::Environment none;
  none.job = none.array_job = none.array_task = "0";
  return slurm::expand_pattern(argument, none);
}

// Checks every word of the batch script, before any file is made or read for it.
Status check_submit_words(const LocalOptions& options, const SubmitOptions& submit) {
  slurm::JobScript words;
  words.name = options.run_dir;
  words.output = submit.run_dir;
  words.directory = fs::current_path();
  words.options = submit.sbatch_arguments;
  words.command = submit.job_arguments;
  words.command.push_back(options.own_trainer.empty() ? own_executable() : options.own_trainer);
  return slurm::check_words(words);
}

// The run directory, with its patterns.
fs::path pattern_of(const LocalOptions& options, const SubmitOptions& submit) {
  return without_slash(submit.run_dir.empty() ? options.run_dir : fs::path(submit.run_dir));
}

// The folder above the runs of an array is often that of a project, which has batch scripts by hand.
Status check_job_script(const fs::path& home) {
  const run::Layout layout(home, Trust::kForeign);
  if (!path_exists(layout.job_script()) || view::is_submitted(layout)) return {};
  return fail(ExitCode::kConfig, str(layout.job_script().string(), " is not of rekindle submit"),
              "move it, or use another --run-dir, such as runs/first or runs/seed-%a");
}

// The batch script of the run. Also makes the folders and programs that the job needs, unless it is only
// shown or tried.
Result<slurm::JobScript> script_of(LocalOptions& options, const SubmitOptions& submit,
                                   const fs::path& pattern) {
  const bool looks_only = submit.print || options.dry_run;
  slurm::JobScript script;
  // If each job of an array has a run directory of its own: the directory above.
  const fs::path home = slurm::without_patterns(pattern);
  const bool many = home != pattern;
  options.run_dir = home;
  script.name = many ? home.filename() : pattern.filename();
  script.directory = fs::current_path();
  script.options = submit.sbatch_arguments;
  // A program with a trainer of its own becomes `rekindle` again in each job, and keeps its copy there.
  fs::path program = options.own_trainer.empty() ? own_executable() : options.own_trainer;
  if (many) {
    script.output = home / "slurm-%A_%a.out";
  } else {
    REKINDLE_CHECK(check_for_later(options, looks_only));
    // The job would find this out only when it begins.
    REKINDLE_CHECK(checkpoint::check_newest_usable(run::Layout(pattern).root()));
    if (!looks_only) {
      REKINDLE_TRY(const FilePath kept,
                   keep_program(run::Layout(pattern), {options.own_trainer, options.job.task.script}));
      program = (kept / "rekindle").path();
    }
    script.lead_seconds = signal_lead_of(options, looks_only);
    script.output = (run::Layout(pattern).logs() / "slurm-%j.out").path();
  }
  if (!looks_only) REKINDLE_CHECK(make_directories(script.output.parent_path()));
  script.command = {program, "slurm"};
  if (!options.job.task.python.empty())
    script.command.insert(script.command.end(), {"--python", options.job.task.python});
  // A signal may come before the job has read the file, or asked the script, that names the directory.
  if (submit.run_dir.empty()) script.command.insert(script.command.end(), {"--run-dir", pattern});
  script.command.insert(script.command.end(), submit.job_arguments.begin(), submit.job_arguments.end());
  return script;
}

// Slurm is asked; nothing is submitted or written.
Result<int> try_submission(const LocalOptions& options, const std::string& text) {
  const auto tested = slurm::test_text(text);
  if (!tested) return forward_error(tested.error());
  say(str("dry run: ", tested->empty() ? "sbatch accepts the job" : *tested));
  if (options.state_bytes > 0) say(str("a checkpoint has ", format_bytes(options.state_bytes)));
  say("nothing was submitted, and nothing written to the run directory. On a node, as by salloc, rekindle "
      "local "
      "--dry-run tries some steps");
  return 0;
}

// A run that has ended goes on in this job. While it goes on, it writes into that file itself.
void record_submission(const run::Layout& layout, const std::string& job) {
  const auto holder = run::newest_term(layout);
  if (!holder || !*holder || !run::looks_gone(**holder)) return;
  const Status recorded =
      run::record_attempt(layout, {{"event", run::kSubmitted}, {"job", job}, {"at", utc_now()}});
  if (!recorded) warn(str("warning: the run is not shown as pending: ", recorded.error().line()));
}

Result<int> submit_run(LocalOptions& options, const SubmitOptions& submit) {
  REKINDLE_TRY(const OnLimit on_limit, check_slurm_options(submit.how));
  REKINDLE_CHECK(check_submit_words(options, submit));
  const fs::path pattern = pattern_of(options, submit);
  const bool many = slurm::without_patterns(pattern) != pattern;
  std::map<std::string, std::string> config;
  if (!submit.print) {  // before anything is written
    REKINDLE_CHECK(check_job_script(slurm::without_patterns(pattern)));
    REKINDLE_CHECK(slurm::check_programs(slurm::programs_of_submit()));
    REKINDLE_TRY(config, ask_slurm());
  }
  REKINDLE_TRY(const slurm::JobScript script, script_of(options, submit, pattern));
  if (!submit.guessed.empty()) {
    std::string words;
    for (const std::string& word : submit.guessed) words += " " + slurm::quoted(word);
    // Not on stdout, because --print writes the script there.
    warn("these options go to sbatch; write them behind --:" + words);
  }
  if (!many && is_script(options.job)) {
    const std::filesystem::path own = options.job.task.script;
    warn_of_kept_script(own, (options.layout().programs() / kKeptScript / own.filename().string()).path());
  }
  const std::string text = to_text(script);
  if (submit.print) {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  const std::string given = submit.run_dir.empty() ? pattern.string() : submit.run_dir;
  REKINDLE_TRY(const auto warnings,
               warnings_before(std::move(config), options, on_limit, script, many ? given : ""));
  for (const std::string& line : warnings) say("warning: " + line);
  if (options.dry_run) return try_submission(options, text);
  REKINDLE_CHECK(make_output_folders(submit.sbatch_arguments));
  // The script of an array is in the directory above those of its jobs. Other users may share that directory
  // and replace the file before sbatch reads it, so the text itself is submitted.
  const FilePath path =
      many ? FilePath(options.run_dir / "job.sh") : run::Layout(options.run_dir).job_script();
  const bool first = !path_exists(path);
  REKINDLE_CHECK(replace_file(path, text, 0700));
  const auto submitted = many ? slurm::submit_text(text) : slurm::submit({path.string()});
  if (!submitted) {
    // sbatch's own words, when the controller is slow.
    const bool late = submitted.error().what.find("imed out") != std::string::npos ||
                      submitted.error().what.find("killed by signal") != std::string::npos;
    if (first && !late) std::ignore = remove_file(path);  // or the run would be shown as pending
    return fail(ExitCode::kConfig, "sbatch refuses the job: " + submitted.error().what,
                late ? slurm::kMayBeQueued : submitted.error().hint);
  }
  if (!many) record_submission(run::Layout(options.run_dir), *submitted);
  const auto facts = slurm::show_job(*submitted);
  say(str("job ", *submitted, ": ", output_of(*submitted, script, facts)));
  if (const std::string line = facts ? warning_after(*submitted, *facts) : ""; !line.empty())
    say("warning: " + line);
  return 0;
}

}  // namespace

SubmitOptions take_submit_options(std::vector<std::string>& arguments) {
  SubmitOptions submit;
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes != arguments.end()) {
    submit.sbatch_arguments.assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
  }
  submit.print = std::erase(arguments, "--print") > 0;
  submit.guessed = slurm::take_sbatch_options(arguments);
  submit.sbatch_arguments.insert(submit.sbatch_arguments.begin(), submit.guessed.begin(),
                                 submit.guessed.end());
  submit.job_arguments.assign(arguments.begin() + 2, arguments.end());
  submit.run_dir = slurm::option_value(submit.job_arguments, "--run-dir").value_or("");
  for (std::string& argument : arguments) argument = without_job(argument);
  return submit;
}

std::string expand_without_job(const std::string& name, const std::string& value) {
  return name == "run-dir" || name == kHook ? value : without_job(value);
}

int run_submit(LocalOptions& options, const SubmitOptions& submit) {
  const auto done = submit_run(options, submit);
  return done ? *done : report(done.error());
}

}  // namespace rekindle::app
