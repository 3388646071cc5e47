#include "base/programs.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/text.hpp"

extern char** environ;

namespace rekindle {
namespace fs = std::filesystem;
namespace {

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool has(int folder, const std::string& name, const struct stat& program) {
  struct stat found {};
  return ::fstatat(folder, name.c_str(), &found, 0) == 0 && same_file(found, program);
}

// Another user could create a second name (a hard link) for this program in a folder of their own.
bool may_hold(const struct stat& folder, const struct stat& program) {
  return folder.st_uid == 0 || folder.st_uid == ::geteuid() || folder.st_uid == program.st_uid;
}

const fs::path& own_folder() {
  static const fs::path folder = own_executable().parent_path();
  return folder;
}

std::vector<std::string> with_name(const std::string& name, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{program_path(name)};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

}  // namespace

Status hold_programs() {
  struct stat program {
  }, found{};
  const fs::path path = own_executable();
  const std::string name = path.filename();
  if (::stat("/proc/self/exe", &program) != 0) return forward_error(errno_error("cannot look at", path));
  if (has(kProgramsFd, name, program)) {
    ::fcntl(kProgramsFd, F_SETFD, FD_CLOEXEC);
    return {};
  }
  const Fd folder(::open(own_folder().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return forward_error(errno_error("cannot open", own_folder()));
  if (!has(folder.get(), name, program) || ::fstat(folder.get(), &found) != 0 || !may_hold(found, program))
    return fail(ExitCode::kConfig,
                str(own_folder().string(), " does not contain the program that was started from it"),
                "the folder was replaced: check its owner, and start again");
  if (::dup3(folder.get(), kProgramsFd, O_CLOEXEC) < 0)
    return forward_error(errno_error("cannot hold", own_folder()));
  return {};
}

fs::path program_path(const std::string& name) { return own_folder() / name; }

bool is_programs_folder(const FilePath& folder) {
  const auto named = look_at(folder).value_or(std::nullopt);
  struct stat held {};
  return named && ::fstat(kProgramsFd, &held) == 0 && same_file(*named, held);
}

Result<Child> start_program(const std::string& name, const std::vector<std::string>& arguments,
                            std::span<const int> inherited) {
  return start_program_with(name, arguments, own_environment(), inherited);
}

Result<Child> start_program_with(const std::string& name, const std::vector<std::string>& arguments,
                                 std::vector<std::string> environment, std::span<const int> inherited) {
  Streams streams;
  streams.programs = kProgramsFd;
  return spawn_with(with_name(name, arguments), std::move(environment), inherited, streams);
}

fs::path program_on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return fs::absolute(name).lexically_normal();
  const std::string path = environment_variable("PATH");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const fs::path candidate = fs::path(path.substr(begin, end - begin)) / name;
    if (end > begin && ::access(candidate.c_str(), X_OK) == 0) return fs::absolute(candidate);
    begin = end + 1;
  }
  return {};
}

fs::path python_package() {
  struct stat info {};
  for (const fs::path& package : {program_path("python") / "rekindle", own_folder().parent_path()})
    if (::stat((package / "__init__.py").c_str(), &info) == 0) return package;
  return {};
}

std::vector<fs::path> places_of_programs() {
  std::error_code none;
  std::vector<fs::path> places{own_folder(), fs::canonical(program_path("lib"), none)};
  if (const fs::path package = python_package(); !package.empty()) {
    places.push_back(package);  // not the folder above it: pip's has other packages
    places.push_back(fs::canonical(package / "__init__.py", none).parent_path());
  }
  return places;
}

std::vector<std::string> with_python_package(std::vector<std::string> environment) {
  const fs::path package = python_package();
  if (package.empty()) return environment;
  struct stat info {};
  const fs::path alone = package / "_alone";
  const fs::path folder = ::stat(alone.c_str(), &info) == 0 ? alone : package.parent_path();
  return with_package_folder(folder, std::move(environment));
}

std::vector<std::string> with_package_folder(const fs::path& folder, std::vector<std::string> environment) {
  constexpr std::string_view kPythonPath = "PYTHONPATH=";
  const std::string package_folder = str(kPackageFolder, "=");
  std::string before;
  std::erase_if(environment, [&](const std::string& entry) {
    if (entry.starts_with(kPythonPath)) before = entry.substr(kPythonPath.size());
    return entry.starts_with(kPythonPath) || entry.starts_with(package_folder);
  });
  const bool may_be_listed = folder.native().find(':') == std::string::npos;
  environment.push_back(str(package_folder, may_be_listed ? "" : folder.string()));
  if (may_be_listed)
    environment.push_back(str(kPythonPath, folder.string(), before.empty() ? "" : ":", before));
  else if (!before.empty())
    environment.push_back(str(kPythonPath, before));
  return environment;
}

Error become_program(const std::string& name, std::vector<std::string> arguments) {
  const Fd folder(::fcntl(kProgramsFd, F_DUPFD_CLOEXEC, kTrainerFd + 1));
  return become_program_in(folder, program_path(name), std::move(arguments));
}

Error become_program_in(const Fd& folder, const FilePath& program, std::vector<std::string> arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  if (::dup2(folder.get(), kProgramsFd) >= 0)  // not close-on-exec, because the new program needs it
    ::execveat(kProgramsFd, program.filename().c_str(), argv.data(), environ, 0);
  return errno_error("cannot start", program);
}

Error become_front_end(const fs::path& programs, std::vector<std::string> arguments) {
  const Fd folder(::open(programs.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return errno_error("cannot open", programs);
  ::setenv(kTrainerVariable, own_executable().c_str(), 1);
  arguments.insert(arguments.begin(), "rekindle");
  return become_program_in(folder, FilePath(programs / "rekindle"), std::move(arguments));
}

Result<fs::path> hold_own_trainer() {
  const std::string named = environment_variable(kTrainerVariable);
  ::unsetenv(kTrainerVariable);  // of this process alone, not of its children
  if (named.empty()) return fs::path();
  const fs::path path = fs::absolute(named).lexically_normal();
  // O_RDONLY and not O_PATH, because the run keeps a copy.
  const Fd program(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!program || ::fstat(program.get(), &info) != 0)
    return forward_error(errno_error("cannot open the trainer program", path));
  if (!S_ISREG(info.st_mode) || (info.st_mode & S_IXUSR) == 0)
    return fail(ExitCode::kConfig, str(path.string(), " is not a program"),
                str(kTrainerVariable, " names the trainer program"));
  if (::dup3(program.get(), kTrainerFd, O_CLOEXEC) < 0)
    return forward_error(errno_error("cannot hold", path));
  return path;
}

fs::path held_trainer() { return str("/proc/self/fd/", kTrainerFd); }

}  // namespace rekindle
