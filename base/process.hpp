// Child processes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle {

// The first descriptor that spawn() passes to a child.
inline constexpr int kInheritedFd = 3;
// The descriptor under which a program of this project finds the folder from which it was started
// (base/programs.hpp). rekindle-trainer looks for its libraries there (app/CMakeLists.txt). Shells and
// scripts use smaller numbers.
inline constexpr int kProgramsFd = 40;

struct Child {
  pid_t pid = -1;
  Fd pidfd;  // watch_process()
};

struct ExitStatus {
  bool by_signal = false;
  int code = 0;  // exit status, or the signal's number
};

// Settings of a child that differ from this process's; -1 and false: the same as this process's.
struct Streams {
  int in = -1, out = -1, err = -1;
  // The child begins a new session. In this process's session, the kernel would send SIGHUP to a stopped
  // child when this process dies (setpgid(2), orphaned process groups).
  bool session = false;
  // An open folder. The child runs the program in this folder with the file name of argv[0], and has the
  // folder as kProgramsFd. -1: argv[0] is a path.
  int programs = -1;
};

// Starts argv[0] (searched in PATH if it has no slash) with `environment` added to this process's, and with
// `inherited` as descriptors 3, 4 and so on. No other descriptors above stderr are inherited. No signal is
// blocked in the child.
Result<Child> spawn(const std::vector<std::string>& argv,
                    const std::vector<std::pair<std::string, std::string>>& environment,
                    std::span<const int> inherited, const Streams& streams = {});
// The same with exactly the entries "NAME=value" of `environment`.
Result<Child> spawn_with(const std::vector<std::string>& argv, std::vector<std::string> environment,
                         std::span<const int> inherited, const Streams& streams = {});
std::vector<std::string> own_environment();  // this process's
// A descriptor that is readable when the process has ended: a pidfd. Before Linux 5.3 it is a socket, to
// which a thread of this process sends a byte up to a tenth of a second after the end.
Result<Fd> watch_process(pid_t pid);
// Waits for the child's end; returns at once when its pidfd is readable.
ExitStatus wait_for(const Child& child);
// The first process of a container (pid 1) inherits each process whose parent has died. Such a process stays
// in the list of processes after its end, until this function is called. Takes the exit status of those that
// have ended, and of no child that spawn() or spawn_with() has started; returns their number.
std::size_t reap_orphans();
// The exit status of a child whose lifeline was cut; nullopt if it is unknown until the child has ended.
// Source: proc(5), exit_code in /proc/PID/stat.
std::optional<ExitStatus> status_of_dying(const Child& child);
// Field `number` (from 1) of /proc/PID/stat, see proc(5); 0 if there is no such process.
std::uint64_t stat_field(std::int64_t pid, int number);
bool is_running(std::int64_t pid);    // exists, and is not a zombie
bool is_suspended(std::int64_t pid);  // by SIGSTOP and the like, or by a debugger
// The children of a process, as far as this process may see them in /proc.
std::vector<pid_t> children_of(pid_t pid);
void kill_child(const Child& child, int signal);

// Signals to a complete process group (Ctrl-C, scancel) must not end coordinator, worker or trainer: only the
// supervisor decides.
void ignore_group_signals();

// Raises the limit of open files to its maximum (the default of 1024 is for programs that use select).
void allow_many_files();

std::filesystem::path own_executable();
std::filesystem::path executable_of(pid_t pid);      // empty: no such process, or another user's
std::string environment_variable(const char* name);  // empty if it is not set
std::string random_hex(std::size_t bytes);           // from the kernel; for ids and secrets

}  // namespace rekindle
