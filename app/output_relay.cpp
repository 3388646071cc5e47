#include "app/output_relay.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <span>
#include <utility>

#include "app/report.hpp"
#include "base/own_code.hpp"
#include "base/pipe.hpp"
#include "base/programs.hpp"
#include "base/relay.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

using Clock = std::chrono::steady_clock;

// Streams to one file share one pipe, which keeps the order of their lines.
std::vector<std::vector<int>> streams_by_file() {
  struct stat out {};
  struct stat error {};
  const bool known = ::fstat(STDOUT_FILENO, &out) == 0 && ::fstat(STDERR_FILENO, &error) == 0;
  if (known && out.st_dev == error.st_dev && out.st_ino == error.st_ino)
    return {{STDOUT_FILENO, STDERR_FILENO}};
  return {{STDOUT_FILENO}, {STDERR_FILENO}};
}

Result<Child> start_writer(const Pipe& output, const Pipe& end, int to) {
  Streams streams;
  streams.out = streams.err = to;
  streams.programs = kProgramsFd;
  return spawn({program_path("rekindle").string(), kRelayOutput}, {},
               std::array{output.read.get(), end.read.get()}, streams);
}

}  // namespace

std::optional<OutputRelay::Writer> OutputRelay::redirect(const std::vector<int>& streams) {
  auto output = make_pipe();
  auto end = make_pipe();
  if (!output || !end) return std::nullopt;
  auto child = start_writer(*output, *end, streams.front());
  if (!child) return std::nullopt;
  for (const int stream : streams) std::ignore = ::dup2(output->write.get(), stream);
  return Writer{std::move(*child), std::move(end->write)};
}

OutputRelay::OutputRelay() {
  std::fflush(stdout);
  for (const std::vector<int>& streams : streams_by_file()) {
    if (::isatty(streams.front()) != 0) continue;
    if (auto writer = redirect(streams))
      writers_.push_back(std::move(*writer));
    else
      warn("warning: no process for this output: if the storage that it goes to hangs, the run waits for it");
  }
}

OutputRelay::~OutputRelay() {
  constexpr std::chrono::seconds kPatience{10};
  if (std::uncaught_exceptions() > 0) return;  // main() prints the error, and then this process ends
  std::fflush(stdout);
  for (const Writer& writer : writers_) std::ignore = ::write(writer.end.get(), "", 1);
  const auto until = Clock::now() + kPatience;
  for (const Writer& writer : writers_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd ended{writer.child.pidfd.get(), POLLIN, 0};
    if (::poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(0, left))) > 0) wait_for(writer.child);
  }
}

// A job's signals do not end this process: it ends with the output.
int run_relay_output() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ})
    std::signal(signal, SIG_IGN);
  keep_code_in_memory();
  const Fd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  relay(Fd(kInheritedFd), out, Fd(kInheritedFd + 1));
  return 0;
}

}  // namespace rekindle::app
