// The commands of `rekindle`, one struct each, with the command's arguments and action. To add a command, add
// a struct and a row in the table of its file.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/submit.hpp"

namespace CLI {
class App;
}

namespace rekindle::app {

// The arguments of the command line.
struct CommandLine {
  std::vector<std::string> as_given;   // with the program's name
  std::vector<std::string> arguments;  // with the usual option names, and a job's patterns expanded
  SubmitOptions submit;                // of `rekindle submit`, taken out of `arguments`
  Script script;                       // taken out of `arguments`, with what stands behind it
  std::filesystem::path own_trainer;   // as LocalOptions::own_trainer

  std::string command() const { return arguments.size() > 1 ? arguments[1] : ""; }
};

class Command {
 public:
  Command() = default;
  virtual ~Command() = default;
  Command(const Command&) = delete;  // CLI11 keeps pointers to the fields
  Command& operator=(const Command&) = delete;
  virtual int run() = 0;  // called after the command line was parsed; returns the exit code
};

// The groups of the help, in this order.
inline constexpr const char *kTraining = "Training", *kWatching = "Watching", *kChecking = "Checking",
                            *kFiles = "Weights and data", *kOther = "Other";

struct CommandRow {
  const char* name;
  const char* group;
  const char* summary;
  const char* example;  // shown at the end of the command's help
  // Adds its options to `command`.
  std::unique_ptr<Command> (*make)(CLI::App& command, const CommandLine& line);
};

std::span<const CommandRow> run_commands();   // local, slurm, submit, join: commands that train
std::span<const CommandRow> view_commands();  // list, logs, plot, wait, watch: they show runs
std::span<const CommandRow> file_commands();  // all others: commands that inspect a run or files

template <class Made>
std::unique_ptr<Command> make_command(CLI::App& command, const CommandLine& line) {
  return std::make_unique<Made>(command, line);
}

}  // namespace rekindle::app
