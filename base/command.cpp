#include "base/command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/bytes.hpp"
#include "base/pipe.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

Result<Pipe> pipe_of_answer() {
  REKINDLE_TRY(Pipe pipe, make_pipe());
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

// Reads the available bytes. Closes the pipe at end of file. False if some had no room.
bool take(Fd& from, std::string& text) {
  std::array<char, 65536> bytes;
  for (bool all = true;;) {
    const ssize_t count = ::read(from.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count == 0 || errno != EAGAIN) from.reset();
      return all;
    }
    const std::size_t room = kMostBytes - text.size();
    text.append(bytes.data(), std::min(static_cast<std::size_t>(count), room));
    all = all && static_cast<std::size_t>(count) <= room;
  }
}

}  // namespace

Result<CommandOutput> run_command(const std::vector<std::string>& argv, std::chrono::milliseconds limit,
                                  const CommandSetting& setting) {
  REKINDLE_TRY(const Fd nothing, open_file("/dev/null", O_RDONLY));
  REKINDLE_TRY(Pipe out, pipe_of_answer());
  REKINDLE_TRY(Pipe err, pipe_of_answer());
  Streams streams{setting.in >= 0 ? setting.in : nothing.get(), out.write.get(), err.write.get()};
  streams.programs = setting.programs;
  REKINDLE_TRY(const Child child, spawn(argv, setting.environment, {}, streams));
  out.write.reset();
  err.write.reset();
  CommandOutput output;
  bool complete = true;  // output.out
  const auto until = Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    std::array<pollfd, 3> waits{
        {{child.pidfd.get(), POLLIN, 0}, {out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
    const int ready = left > 0 ? ::poll(waits.data(), waits.size(), static_cast<int>(left)) : 0;
    if (ready < 0) continue;
    if (ready == 0) {
      kill_child(child, SIGKILL);
      wait_for(child);
      return forward_error(Error{ExitCode::kGaveUp,
                                 str(argv[0], " did not answer within ", limit.count() / 1000.0, " s"), "",
                                 ErrorKind::kSystem});
    }
    if (waits[1].revents != 0) {
      complete = take(out.read, output.out) && complete;
      if (setting.on_output) setting.on_output(output.out);
    }
    if (waits[2].revents != 0) take(err.read, output.err);
    if (waits[0].revents == 0) continue;
    output.status = wait_for(child);
    if (out.read) complete = take(out.read, output.out) && complete;
    if (err.read) take(err.read, output.err);
    if (complete) return output;
    // Half of an answer would be read as a wrong one.
    return fail(str(argv[0], " has written more than ", format_bytes(kMostBytes), " to its standard output"));
  }
}

}  // namespace rekindle
