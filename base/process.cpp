#include "base/process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/own_children.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"

extern char** environ;

namespace rekindle {

Result<Child> spawn(const std::vector<std::string>& argv,
                    const std::vector<std::pair<std::string, std::string>>& environment,
                    std::span<const int> inherited, const Streams& streams) {
  std::vector<std::string> entries = own_environment();
  for (const auto& [key, value] : environment) {
    std::erase_if(entries,
                  [&key = key](const std::string& entry) { return entry.starts_with(str(key, "=")); });
    entries.push_back(str(key, "=", value));
  }
  return spawn_with(argv, std::move(entries), inherited, streams);
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

Result<Child> spawn_with(const std::vector<std::string>& argv, std::vector<std::string> environment,
                         std::span<const int> inherited, const Streams& streams) {
  std::vector<char*> envp, args;
  for (std::string& entry : environment) envp.push_back(entry.data());
  envp.push_back(nullptr);
  std::vector<std::string> copies = argv;
  for (std::string& arg : copies) args.push_back(arg.data());
  args.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // dup2 onto the same number keeps close-on-exec set, so first duplicate to other numbers.
  std::vector<Fd> elsewhere;
  const auto pass = [&](int fd, int number) {
    if (fd < 0) return;
    elsewhere.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, kTrainerFd + 1));
    posix_spawn_file_actions_adddup2(&actions, elsewhere.back().get(), number);
  };
  int number = kInheritedFd;
  for (const int fd : inherited) pass(fd, number++);
  pass(streams.in, STDIN_FILENO);
  pass(streams.out, STDOUT_FILENO);
  pass(streams.err, STDERR_FILENO);
  pass(streams.programs, kProgramsFd);
  // posix_spawn(3) has no execveat(2); in the child, /proc/self is the child itself.
  std::string file = argv[0];
  if (streams.programs >= 0)
    file = str("/proc/self/fd/", kProgramsFd, "/", std::filesystem::path(argv[0]).filename().string());
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  const int session = streams.session ? POSIX_SPAWN_SETSID : 0;
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | session));
  Child child;
  int error = 0;
  child.pid = OwnChildren::of_this_process().start([&] {
    pid_t pid = -1;
    error = ::posix_spawnp(&pid, file.c_str(), &actions, &attributes, args.data(), envp.data());
    return error == 0 ? pid : -1;
  });
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return fail(str("cannot start ", argv[0], ": ", std::strerror(error)));
  auto watched = watch_process(child.pid);
  if (!watched) {  // for want of a descriptor: what has begun must not go on unknown
    ::kill(child.pid, SIGKILL);
    wait_for(child);
    return forward_error(watched.error());
  }
  child.pidfd = std::move(*watched);
  return child;
}

namespace {
ExitStatus decoded(int status) {
  if (WIFSIGNALED(status)) return {true, WTERMSIG(status)};
  return {false, WEXITSTATUS(status)};
}
}  // namespace

ExitStatus wait_for(const Child& child) {
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  OwnChildren::of_this_process().forget(child.pid);
  return decoded(status);
}

std::size_t reap_orphans() { return OwnChildren::of_this_process().reap_others(); }

namespace {
std::string stat_text(std::int64_t pid, int number) {
  std::ifstream file(str("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return "";
  // The second field is the program's name in parentheses, which may contain any characters.
  std::istringstream rest(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= number; ++i) rest >> field;
  return field;
}
}  // namespace

std::uint64_t stat_field(std::int64_t pid, int number) {
  return std::strtoull(stat_text(pid, number).c_str(), nullptr, 10);
}

bool is_running(std::int64_t pid) {
  const std::string state = stat_text(pid, 3);
  return !state.empty() && state != "Z" && state != "X";
}

bool is_suspended(std::int64_t pid) {
  const std::string state = stat_text(pid, 3);
  return state == "T" || state == "t";
}

namespace {
constexpr const char* kDigits = "0123456789";

// The names of the entries of a directory of /proc that are numbers.
std::vector<pid_t> numbers_in(const std::string& directory) {
  std::vector<pid_t> numbers;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(directory, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of(kDigits) == std::string::npos) numbers.push_back(std::stoi(name));
  }
  return numbers;
}
}  // namespace

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  bool listed = false;
  for (const pid_t thread : numbers_in(str("/proc/", pid, "/task"))) {
    std::ifstream file(str("/proc/", pid, "/task/", thread, "/children"));
    listed = listed || file.is_open();
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  if (listed) return children;
  // This kernel was built without CONFIG_PROC_CHILDREN.
  for (const pid_t candidate : numbers_in("/proc")) {
    if (stat_field(candidate, 4) == static_cast<std::uint64_t>(pid)) children.push_back(candidate);
  }
  return children;
}

std::optional<ExitStatus> status_of_dying(const Child& child) {
  const auto status = static_cast<int>(stat_field(child.pid, 52));
  if (status == 0) return std::nullopt;  // exited with 0, or the field is hidden from this process
  return decoded(status);
}

void ignore_group_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  std::signal(SIGCHLD,
              SIG_DFL);  // if inherited as ignored, the kernel would not report a child's exit status
}

void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::filesystem::path own_executable() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::filesystem::path executable_of(pid_t pid) {
  std::error_code failed;
  return std::filesystem::read_symlink(str("/proc/", pid, "/exe"), failed);
}

std::string random_hex(std::size_t bytes) {
  std::string random(bytes, '\0');
  if (::getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) std::abort();
  std::string text;
  for (const char c : random) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
    text += digits;
  }
  return text;
}

}  // namespace rekindle
