#include "app/enclose.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <string>
#include <vector>

#include "app/batch_host_watch.hpp"
#include "app/container.hpp"
#include "app/part_options.hpp"
#include "app/report.hpp"
#include "app/signals.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/process.hpp"

namespace rekindle::app {
namespace {

constexpr int kSignalled = 128;  // as a shell

// Whether `fd`, a pipe or a socket from which nothing but its end is expected, has ended.
bool has_ended(int fd) {
  std::array<char, 256> bytes{};
  return ::read(fd, bytes.data(), bytes.size()) <= 0;
}

// Waits for the end of the command. Its stdin, `lifeline`, is closed when it is to leave: at the end of this
// process's stdin, or, with a watch, when that says so.
ExitStatus accompany(const Child& child, Fd lifeline, BatchHostWatch* watch) {
  int leave = STDIN_FILENO;
  for (;;) {
    std::array<pollfd, 2> waits{pollfd{child.pidfd.get(), POLLIN, 0}, pollfd{leave, POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) return wait_for(child);
    if (waits[1].revents == 0 || (leave == STDIN_FILENO && !has_ended(leave))) continue;
    if (leave == STDIN_FILENO && watch != nullptr) {
      leave = watch->supervisor_gone();
    } else {
      lifeline.reset();
      leave = -1;  // poll(2) ignores it
    }
  }
}

}  // namespace

int enclose(int argc, char** argv) {
  CLI::App cli("The part of a contained worker outside of its container", "rekindle");
  CLI::App* enclosing = cli.add_subcommand(kEnclose);
  PartOptions part;
  part.add_directory(*enclosing);
  std::string successor;
  std::vector<std::string> command;
  enclosing->add_option("--successor", successor, "as of a worker");
  enclosing->add_option("command", command)->required();
  if (const auto code = parse_part(cli, argc, argv, "it is started by rekindle slurm")) return *code;
  report_step();
  report_signals();  // must run before other threads exist
  const run::Layout layout = part.layout();
  const std::string host = host_name();
  start_logging("container on " + host, layout.log("container-" + host), LogLevel::kNone);
  BatchHostWatch* watch = nullptr;
  if (!successor.empty()) {
    auto started = BatchHostWatch::start(layout, successor);
    if (!started) return worker_not_up(started.error());
    watch = *started;
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return worker_not_up(errno_error("cannot make a pipe", "the container"));
  Fd inside(ends[0]), lifeline(ends[1]);
  const auto child = spawn(without_missing_mounts(std::move(command)), {}, {}, {inside.get(), -1, -1});
  if (!child) return worker_not_up(child.error());
  inside.reset();
  const ExitStatus status = accompany(*child, std::move(lifeline), watch);
  if (watch != nullptr) watch->before_leaving();
  return status.by_signal ? kSignalled + status.code : status.code;
}

}  // namespace rekindle::app
