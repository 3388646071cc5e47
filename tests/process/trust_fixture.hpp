// A run directory that another user creates, changes or exchanges. Two users need root, which can change the
// owner of files.
#pragma once

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "base/copy_file.hpp"
#include "base/files.hpp"
#include "base/libraries.hpp"
#include "base/text.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {

inline constexpr uid_t kSomebodyElse = 12345;

class TrustedDirectory : public LiveRun {
 protected:
  // A script in place of a program: it records that it was executed.
  void plant_program() const {
    fs::create_directories(dir() / "bin");
    fs::remove(dir() / "bin/rekindle");
    std::ofstream(dir() / "bin/rekindle") << "#!/bin/sh\ntouch " << (scratch_ / "executed").string() << "\n";
    fs::permissions(dir() / "bin/rekindle", fs::perms(0755));
  }
  bool executed() const { return fs::exists(scratch_ / "executed"); }
  static void give_away(const fs::path& path) {
    ASSERT_EQ(::lchown(path.c_str(), kSomebodyElse, kSomebodyElse), 0);
  }
  static bool two_users() { return ::geteuid() == 0; }
  // An action of another user of the machine.
  static void as_somebody_else(const std::function<void()>& attack) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgid(kSomebodyElse) != 0 || ::setuid(kSomebodyElse) != 0) ::_exit(2);
      try {
        attack();
      } catch (const fs::filesystem_error&) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << "the attack did not work";
  }
  // Keeps the programs and libraries of this build in the run directory, like submit.
  void keep_programs() const {
    const fs::path bin = dir() / "bin", here = fs::path(rekindle()).parent_path();
    fs::create_directories(bin / "lib");
    for (const fs::path& folder : {dir(), bin, bin / "lib"}) fs::permissions(folder, fs::perms(0700));
    for (const char* name : {"rekindle", "rekindle-control", "rekindle-trainer"})
      ASSERT_TRUE(copy_file(here / name, bin / name, S_IRWXU));
    const auto libraries = libraries_of(here / "rekindle-trainer");
    ASSERT_TRUE(libraries) << libraries.error().line();
    for (const Library& library : *libraries) {
      if (!library.path.string().starts_with(here.string())) continue;
      ASSERT_TRUE(link_or_copy(library.path, bin / "lib" / library.name));
    }
  }
  // Moves the run directory to `away`, and puts a trap in its place: programs that record that they were
  // executed, and libraries with which no program can start.
  void exchange_for_a_trap(const fs::path& away) const {
    fs::rename(dir(), away);
    const fs::path bin = dir() / "bin";
    fs::create_directories(bin / "lib");
    for (const char* name : {"rekindle", "rekindle-control", "rekindle-trainer"}) {
      std::ofstream(bin / name) << "#!/bin/sh\ntouch " << (scratch_ / "executed").string() << "\n";
      fs::permissions(bin / name, fs::perms(0755));
    }
    for (const char* name : {"libc.so.6", "libstdc++.so.6", "libc10.so", "libtorch_cpu.so"})
      std::ofstream(bin / "lib" / name) << "not a library";
  }
  static std::string logs_of(const fs::path& run_dir) {
    std::string all;
    for (const auto& entry : fs::directory_iterator(run_dir / "logs"))
      all += read_text(entry.path()).value_or("");
    return all;
  }
  // Every file, with its size and the time of its last change.
  static std::map<std::string, std::string> content_of(const fs::path& directory) {
    std::map<std::string, std::string> content;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      struct stat info {};
      ::lstat(entry.path().c_str(), &info);
      content[entry.path()] = str(info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec);
    }
    return content;
  }
  void kill_a_trainer() const {
    const auto trainers = parts_of(dir(), "trainer");
    ASSERT_FALSE(trainers.empty());
    ::kill(trainers.front(), SIGKILL);
  }
  fs::path victim() const { return scratch_ / "authorized_keys"; }
};

}  // namespace rekindle::process_test
