// The remaining abilities of a confined process. Each test tries a call in a child, whose exit code is the
// result.
#include "base/sandbox.hpp"
#include "../needs.hpp"
#include "../temporary_directory.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/text.hpp"

namespace rekindle {
namespace {

namespace fs = std::filesystem;

constexpr int kConfinedOff = 99;

class Sandbox : public ::testing::Test {
 protected:
  Sandbox() {
    std::ofstream(input_) << "input";
    std::ofstream(other_) << "other";
  }
  // 1: `attempt` worked; 0: it was refused.
  int confined(const std::function<bool()>& attempt, bool needs_landlock = false) const {
    const pid_t child = ::fork();
    if (child == 0) {
      const Confinement held = confine_to_reading(input_);
      if (!held.calls || (needs_landlock && !held.files)) ::_exit(kConfinedOff);
      ::_exit(attempt() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  TemporaryDirectory directory_;
  fs::path input_ = directory_.path() / "input", other_ = directory_.path() / "other";
};

#define SKIP_IF_OFF(result) \
  if ((result) == kConfinedOff) REKINDLE_SKIP(Needs::kLandlock, "this kernel or build does not confine")

TEST_F(Sandbox, ItsInput_CanBeRead) {
  const int read = confined([this] {
    char text[8] = {};
    const int fd = ::open(input_.c_str(), O_RDONLY);
    return fd >= 0 && ::read(fd, text, sizeof text) == 5;
  });
  SKIP_IF_OFF(read);
  EXPECT_EQ(read, 1);
}

TEST_F(Sandbox, AnotherFile_CannotBeRead) {
  const int read = confined([this] { return ::open(other_.c_str(), O_RDONLY) >= 0; }, true);
  SKIP_IF_OFF(read);
  EXPECT_EQ(read, 0);
}

TEST_F(Sandbox, NothingCanBeWrittenMadeOrRemoved) {
  const std::function<bool()> attempts[] = {
      [this] { return ::open(input_.c_str(), O_RDWR) >= 0; },
      [this] { return ::open((input_.string() + ".new").c_str(), O_WRONLY | O_CREAT, 0600) >= 0; },
      [this] { return ::unlink(other_.c_str()) == 0; },
      [this] { return ::rename(other_.c_str(), input_.c_str()) == 0; },
      [this] { return ::chmod(other_.c_str(), 0777) == 0; },
      [this] { return ::mkdir((input_.string() + ".new").c_str(), 0700) == 0; },
  };
  for (const auto& attempt : attempts) {
    const int done = confined(attempt);
    SKIP_IF_OFF(done);
    EXPECT_EQ(done, 0) << "attempt " << &attempt - attempts;
  }
}

TEST_F(Sandbox, NoNetworkNoProcessNoSignal) {
  const std::function<bool()> attempts[] = {
      [] { return ::socket(AF_INET, SOCK_STREAM, 0) >= 0; },
      [] { return ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0; },
      [] {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(0);
        return child > 0;
      },
      [] {
        ::execl("/bin/true", "true", nullptr);
        return false;
      },
      [] { return ::kill(::getppid(), 0) == 0; },
      [this] {  // without the sandbox, the kernel would send the signal
        const int fd = ::open(input_.c_str(), O_RDONLY);
        return fd < 0 || ::fcntl(fd, F_SETOWN, ::getppid()) == 0 || ::fcntl(fd, F_SETFL, O_ASYNC) == 0;
      },
  };
  for (const auto& attempt : attempts) {
    const int done = confined(attempt);
    SKIP_IF_OFF(done);
    EXPECT_EQ(done, 0) << "attempt " << &attempt - attempts;
  }
}

TEST_F(Sandbox, DescriptorsCanBeDuplicatedAndLockedStill) {
  const int done = confined([this] {
    const int fd = ::open(input_.c_str(), O_RDONLY);
    struct flock lock {};
    lock.l_type = F_RDLCK;
    return ::fcntl(fd, F_DUPFD_CLOEXEC, 0) >= 0 && ::fcntl(fd, F_GETFL) >= 0 &&
           ::fcntl(fd, F_SETLK, &lock) == 0;
  });
  SKIP_IF_OFF(done);
  EXPECT_EQ(done, 1);
}

TEST_F(Sandbox, Abort_EndsTheProcess) {
  const int ended = confined([]() -> bool { std::abort(); });
  SKIP_IF_OFF(ended);
  EXPECT_EQ(ended, -SIGABRT);
}

}  // namespace
}  // namespace rekindle
