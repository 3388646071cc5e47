// The folder of this process's program, with the project's other programs and their libraries (lib/). The
// folder is opened once and stays open, and every child is started from the open folder. If another user
// renames a parent folder during the run and creates a new one, nothing in it is executed (docs/security.md).
#pragma once

#include <csignal>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "base/result.hpp"

namespace rekindle {

// Opens the folder as kProgramsFd: the folder that the parent passed on, or, in a process that was started by
// path, the folder of that path if it contains this process's program. Call this first in main().
Status hold_programs();

// The path of a program of the folder, as of this process's start, for messages and for other nodes.
std::filesystem::path program_path(const std::string& name);
// Whether `folder` is the open folder, under any name.
bool is_programs_folder(const FilePath& folder);

// Starts a program of the folder, which also gets the open folder. The other arguments are as for spawn() and
// spawn_with().
Result<Child> start_program(const std::string& name, const std::vector<std::string>& arguments,
                            std::span<const int> inherited);
Result<Child> start_program_with(const std::string& name, const std::vector<std::string>& arguments,
                                 std::vector<std::string> environment, std::span<const int> inherited);
// A program as a shell finds it, as an absolute path: searched in PATH if its name has no slash. Empty: none.
std::filesystem::path program_on_path(const std::string& name);
// The Python package `rekindle`: in the folder (in a build tree, and beside the programs that a run keeps),
// or the folder is in the package (where pip installed it). Empty: neither.
std::filesystem::path python_package();
// The folders that these programs and the package need. (In a build tree, lib/ and the package's files are
// links.)
std::vector<std::filesystem::path> places_of_programs();
// The environment of an interpreter that shall find this package: PYTHONPATH begins with a folder that has
// this package alone (python/rekindle/_alone, or, where a run keeps the programs, the folder above the
// package).
std::vector<std::string> with_python_package(std::vector<std::string> environment);
// The same with this folder. Python divides PYTHONPATH at each ':', and knows no escape: a folder whose path
// has one is in kPackageFolder, which task::python_trainer() reads.
std::vector<std::string> with_package_folder(const std::filesystem::path& folder,
                                             std::vector<std::string> environment);
inline constexpr const char* kPackageFolder = "REKINDLE_PACKAGE_FOLDER";
// Replaces this process with a program of the folder; returns only on failure. `arguments`: argv, with
// argv[0].
Error become_program(const std::string& name, std::vector<std::string> arguments);
// The same with a program of another open folder.
Error become_program_in(const Fd& folder, const FilePath& program, std::vector<std::string> arguments);

// The signal with which a run ends the programs that watch it. Nobody else sends it: a scheduler's SIGTERM
// goes to all processes of a job, and these are to see how the run saves its state and ends.
inline int end_signal() { return SIGRTMIN; }

// A trainer program of another project (docs/extending.md) starts `rekindle` with its own path in this
// variable. The run then trains with this program, and keeps a copy.
inline constexpr const char* kTrainerVariable = "REKINDLE_TRAINER";
// The descriptor under which `rekindle` holds this program.
inline constexpr int kTrainerFd = kProgramsFd + 1;
// Replaces this process, a trainer program, with `rekindle` of the folder `programs`; returns only on
// failure. `arguments`: without argv[0].
Error become_front_end(const std::filesystem::path& programs, std::vector<std::string> arguments);
// Takes the variable out of the environment and opens the program as kTrainerFd. Returns the program's path;
// empty if the variable is not set. Call this after hold_programs().
Result<std::filesystem::path> hold_own_trainer();
// The open program, for this process and as argv[0] of its children: its path may lead to another file by
// now.
std::filesystem::path held_trainer();

}  // namespace rekindle
