// rekindle: the command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <tuple>

#include "app/command.hpp"
#include "app/foreign_file.hpp"
#include "app/manual.hpp"
#include "app/options.hpp"
#include "app/output_relay.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/script.hpp"
#include "app/signals.hpp"
#include "app/slurm_successor.hpp"
#include "app/spellings.hpp"
#include "base/files.hpp"
#include "base/nearest.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "slurm/environment.hpp"

namespace rekindle::app {
namespace {

// Expands %A, %a and %j to this job's numbers.
void expand_patterns(std::vector<std::string>& arguments) {
  const auto environment = slurm::read_environment();
  if (!environment) return;
  for (std::string& argument : arguments) argument = slurm::expand_pattern(argument, *environment);
}

CommandLine read_command_line(int argc, char** argv) {
  CommandLine line;
  line.as_given.assign(argv, argv + argc);
  line.arguments = line.as_given;
  if (line.command() == "help") {  // "help local" is "local --help"
    line.arguments.erase(line.arguments.begin() + 1);
    line.arguments.emplace_back("--help");
  }
  const std::string command = line.command();
  if (command == "local" || command == "slurm" || command == "submit")
    line.script = take_script(line.arguments);  // first: what stands behind a script is the script's own
  use_usual_names(line.arguments);
  if (command == "slurm" || command == "join") expand_patterns(line.arguments);
  if (command == "submit") {
    line.submit = take_submit_options(line.arguments);
    std::vector<std::string>& words = line.submit.job_arguments;
    if (!line.script.file.empty()) words.push_back(line.script.file);
    words.insert(words.end(), line.script.arguments.begin(), line.script.arguments.end());
  }
  return line;
}

// Internal commands: parts of a run, and children of this program. The parts are separate programs, so that
// only they load CAF or LibTorch.
std::optional<int> run_hidden(const CommandLine& line) {
  std::vector<std::string> words = line.arguments;
  const std::string command = line.command();
  if (command == "coordinator" || command == "worker")
    return report(become_program("rekindle-control", words));
  if (command == "trainer") {
    words.erase(words.begin());
    return report(become_program("rekindle-trainer", words));
  }
  words = line.as_given;  // paths and texts, no options
  if (command == kSlurmSuccessor && words.size() == 5) return run_successor(words[2], words[3], words[4]);
  if (command == kRelayOutput && words.size() == 2) return run_relay_output();
  if (command == kReadH5 && words.size() == 3) return run_read_h5(words[2]);
  return std::nullopt;
}

Error unknown_command(const CLI::App& cli, const std::string& command) {
  std::vector<std::string> commands;
  for (const CLI::App* each : commands_of(cli)) commands.push_back(each->get_name());
  return {ExitCode::kUsage, str("there is no command '", command, "'"), did_you_mean(command, commands)};
}

// The error for a command line that CLI11 cannot parse.
Error wrong_command_line(const CLI::App& cli, const std::string& command, const CLI::ParseError& error) {
  const auto chosen = cli.get_subcommands();
  if (chosen.empty() && command.empty()) return {ExitCode::kUsage, "no command", "see rekindle --help"};
  const CLI::App& of = chosen.empty() ? cli : *chosen.front();
  if (const auto extras = cli.remaining(true); !extras.empty()) return unknown_option(of, extras.front());
  std::string what = error.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  return {ExitCode::kUsage, what, str("see ", full_name(of), " --help")};
}

void print_help(CLI::App& cli, bool all) {
  const auto chosen = cli.get_subcommands();
  if (chosen.empty()) {
    std::cout << cli.help("", all ? CLI::AppFormatMode::All : CLI::AppFormatMode::Normal);
    return;
  }
  CLI::App& command = *chosen.front();
  if (!all) show_essentials(command);
  std::cout << command.help(cli.get_name());
}

// A full disk must not leave half of a file behind a command that succeeded. A run's output is only its log.
int check_written(int code) {
  const bool written = std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written || code != 0 ? code
                              : report({ExitCode::kGaveUp, "standard output could not be written", {}});
}

// "$UNSET" in a script would otherwise begin another run than the one that was meant.
Status check_no_empty(const std::vector<std::string>& arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool no_value = word.starts_with("--") && word.ends_with("=");
    if (!word.empty() && !no_value) continue;
    const std::string name = no_value ? word.substr(0, word.size() - 1) : arguments[i - 1];
    return fail(ExitCode::kUsage,
                name.starts_with("--") ? str("the value of ", name, " is empty")
                                       : std::string("an argument is empty"),
                "is a variable of the shell not set?");
  }
  return {};
}

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  // Must come first: a signal that arrives from now on stays pending until a reader exists.
  if (first == "slurm" || first == kSlurmSuccessor) hold_signals(Hangup::kHeld);
  if (first == "local" || first == "join" || first == "selftest") hold_signals();
  CommandLine line = read_command_line(argc, argv);
  if (const Status held = hold_programs(); !held) return report(held.error());
  auto own_trainer = hold_own_trainer();
  if (!own_trainer) return report(own_trainer.error());
  line.own_trainer = *own_trainer;
  if (const auto done = run_hidden(line)) return *done;
  if (const Status whole = check_no_empty(line.arguments); !whole) return report(whole.error());

  CLI::App cli(
      "Rekindle trains models with data parallelism, and goes on after any fault with the same bits.",
      "rekindle");
  cli.require_subcommand(1);
  cli.set_version_flag("--version", [] {
    std::string version = str("rekindle ", own_build().value_or("?"), "\nbuilt    with ", built_with());
    const std::filesystem::path trainer = program_path("rekindle-trainer");
    if (!path_exists(trainer))
      return version;  // the Python package, whose trainers are the scripts' interpreters
    // Checkpoints name the trainer's build.
    return str(version, "\ntrainer  ", build_of(trainer).value_or("?"));
  });
  cli.set_help_all_flag("--help-all", "Print help with every option and exit");
  cli.footer("Parts for other launchers: rekindle coordinator | worker | trainer.  See docs/.");
  std::map<const CLI::App*, std::unique_ptr<Command>> commands;
  for (const auto& table : {run_commands(), view_commands(), file_commands()}) {
    for (const CommandRow& row : table) {
      CLI::App* command = cli.add_subcommand(row.name, row.summary);
      command->group(row.group);
      command->footer(str("Example:\n  ", row.example));
      commands.emplace(command, row.make(*command, line));
    }
  }
  if (line.command() == kManual && line.as_given.size() == 2) {
    std::cout << manual_page(cli);
    return 0;
  }
  if (line.command() == kManual && line.as_given.size() == 3 && line.as_given.back() == kMarkdown) {
    std::cout << commands_page(cli);
    return 0;
  }
  if (const std::string command = line.command();
      !command.empty() && !command.starts_with("-") &&
      cli.get_subcommands([&](const CLI::App* each) { return each->get_name() == command; }).empty())
    return report(unknown_command(cli, command));
  try {
    std::vector<const char*> words;
    words.reserve(line.arguments.size());
    for (const std::string& argument : line.arguments) words.push_back(argument.c_str());
    cli.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::CallForHelp& help) {
    const std::string command = line.command();  // of "help COMMAND", too
    if (cli.get_subcommands().empty() && !command.empty() && !command.starts_with("-"))
      return report(wrong_command_line(cli, command, help));
    print_help(cli, false);
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    print_help(cli, true);
    return 0;
  } catch (const CLI::CallForVersion& version) {
    say_lines(version.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    return report(wrong_command_line(cli, first, error));
  }
  const CLI::App* command = cli.get_subcommands().front();
  const int code = commands.at(command)->run();
  return command->get_group() == kTraining ? code : check_written(code);
}

// Of an error of the system that no function has returned: no thread can be made, a path cannot be completed.
Error error_of(const std::exception& exception) {
  std::error_code gone;
  std::ignore = std::filesystem::current_path(gone);
  if (gone && dynamic_cast<const std::filesystem::filesystem_error*>(&exception) != nullptr)
    return {ExitCode::kConfig, str("the current folder cannot be used: ", gone.message()),
            "was it removed? cd to another folder"};
  return {ExitCode::kGaveUp, exception.what(), {}};
}

}  // namespace
}  // namespace rekindle::app

int main(int argc, char** argv) {
  using rekindle::Error;
  const Error no_memory{rekindle::ExitCode::kGaveUp, "there is not enough memory for this",
                        "a file may claim more than it holds"};
  try {
    return rekindle::app::main(argc, argv);
  } catch (const std::bad_alloc&) {
    return rekindle::app::report(no_memory);
  } catch (const std::length_error&) {
    return rekindle::app::report(no_memory);
  } catch (const std::exception& exception) {
    return rekindle::app::report(rekindle::app::error_of(exception));
  }
}
