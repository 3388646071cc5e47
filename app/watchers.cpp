#include "app/watchers.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <tuple>

#include "app/report.hpp"
#include "base/files.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "view/run_events.hpp"

namespace rekindle::app {

Watchers::Watchers(const run::Layout& layout, const WatcherOptions& options) {
  if (options.on_event.empty()) return;
  // Not by their times: the clock may be set back.
  const auto told = view::RunEvents(layout, view::RunEvents::From::kBeginning).read_new();
  start("rekindle", {"watch", layout.root().string(), "--on-event", options.on_event, "--of-a-run-after",
                     str(told ? told->size() : 0)});
}

void Watchers::begin(const run::Layout& layout, const WatcherOptions& options) {
  // Of an attempt that was killed: somebody else may listen there by now, and a link has the token.
  std::ignore = remove_file(layout.page_place());
  const std::string directory = layout.root().string();
  if (options.wants_board()) {
    std::vector<std::string> arguments = {"serve", directory, "--one-run", "--of-a-run"};
    const auto more = board_arguments(options);
    if (!more) warn(more.error().line());
    if (more) arguments.insert(arguments.end(), more->begin(), more->end());
    // Others can read a batch log: it gets no token.
    if (::isatty(STDOUT_FILENO) != 0)
      arguments.emplace_back("--print-link");
    else if (options.status_port)
      say(str("the page of this run: rekindle status ", directory, " --link"));
    if (more) start("rekindle-board", arguments);
  }
}

void Watchers::start(const std::string& program, const std::vector<std::string>& arguments) {
  auto child = start_program(program, arguments, {});
  if (child)
    children_.push_back(std::move(*child));
  else
    warn(str("warning: ", child.error().line(), ": the run goes on without it"));
}

Watchers::~Watchers() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience{10};
  for (const Child& child : children_) kill_child(child, end_signal());
  const auto until = Clock::now() + kPatience;
  for (const Child& child : children_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd ended{.fd = child.pidfd.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(0, left))) <= 0) kill_child(child, SIGKILL);
    wait_for(child);
  }
}

}  // namespace rekindle::app
