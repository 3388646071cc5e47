// network_disk [OPTIONS] COMMAND...: runs a command whose temporary directory is on network storage, as
// network_disk.hpp makes it. TMPDIR is the first node's view of one directory; REKINDLE_TEST_NODES names all
// nodes', with ':' between. The mounts live in a namespace of their own and end with the command, whose exit
// status is returned; 77 if this machine does not let us mount (1 if it should, in ./dev test --strict).
#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>

#include "../rights.hpp"
#include "base/text.hpp"
#include "network_disk.hpp"

namespace fs = std::filesystem;
using namespace rekindle;
using network_disk::Mount;

namespace {

constexpr int kSkipped = 77;

int skipped(const std::string& what) {
  std::perror(str("network_disk: skipped: ", what).c_str());
  return must_run(Needs::kFuse) ? 1 : kSkipped;
}

int run(const std::vector<std::string>& command) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<char*> arguments;
    for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));  // NOLINT
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    std::perror(command[0].c_str());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) {
  int nodes = 1, late_ms = 0, slow_us = 0, room_mib = 2048;
  bool tells_at_close = false, keeps_unchanged = false;
  CLI::App app("Runs a command with its temporary files on simulated network storage.");
  app.add_option("--nodes", nodes, "views of the same directory")->check(CLI::Range(1, 16));
  app.add_option("--late-ms", late_ms, "until a node sees what another one did to a name");
  app.add_option("--slow-us", slow_us, "that every call takes");
  app.add_option("--room-mib", room_mib, "before the storage is full");
  app.add_flag("--tells-at-close", tells_at_close, "and not at fsync that it is full");
  app.add_flag("--keeps-unchanged", keeps_unchanged, "in memory what has the same size and time");
  app.prefix_command();
  CLI11_PARSE(app, argc, argv);
  const std::vector<std::string> command = app.remaining();
  if (command.empty()) return app.exit(CLI::CallForHelp());

  if (::unshare(CLONE_NEWNS) != 0) return skipped("no mount namespace");
  // In a chroot "/" is no mount (EINVAL); then others may see the mounts for as long as they are there.
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 && errno != EINVAL)
    return skipped("no private mounts");
  std::string base = (fs::temp_directory_path() / "rekindle-network-disk-XXXXXX").string();
  if (::mkdtemp(base.data()) == nullptr) return skipped(base);
  if (::mount("none", base.c_str(), "tmpfs", 0, str("mode=0700,size=", room_mib, "m").c_str()) != 0)
    return skipped("no tmpfs");
  const fs::path backing = fs::path(base) / "backing";
  fs::create_directory(backing);
  int status = 0;
  {
    network_disk::Names names{std::chrono::milliseconds(late_ms)};
    const network_disk::Habits habits{std::chrono::microseconds(slow_us), tells_at_close, keeps_unchanged};
    std::vector<std::unique_ptr<Mount>> mounts;
    std::string all;
    for (int i = 0; i < nodes; ++i) {
      const fs::path where = fs::path(base) / str("node-", i);
      fs::create_directory(where);
      mounts.push_back(std::make_unique<Mount>(i, backing, where, names, habits));
      if (!mounts.back()->mounted()) return skipped("no FUSE");
      all += str(i == 0 ? "" : ":", where.string());
    }
    ::setenv("TMPDIR", (fs::path(base) / "node-0").c_str(), 1);
    ::setenv("REKINDLE_TEST_NODES", all.c_str(), 1);
    status = run(command);
  }
  ::umount2(base.c_str(), MNT_DETACH);
  fs::remove(base);
  return status;
}
