#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <vector>

#include "app/looking.hpp"
#include "app/views.hpp"
#include "base/command.hpp"
#include "base/process.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
#include "view/run_events.hpp"
#include "view/runs.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;

namespace {

// Of a command: it may be a web server's answer. Not among the lines of --json.
void say_output(const std::string& out) {
  constexpr std::size_t kMost = 4096;
  std::istringstream lines(out.substr(0, kMost));
  for (std::string line; std::getline(lines, line);) std::cerr << printable(line) << "\n";
  if (out.size() > kMost) std::cerr << "(" << out.size() - kMost << " more bytes)\n";
}

// Runs a command of the user's with an event on its input. At its limit, the command is killed with its
// process group.
void tell(const std::string& command, std::chrono::seconds limit, const std::string& event) {
  static constexpr std::chrono::seconds kPatience{30};  // for timeout(1) itself
  const auto complain = [](const std::string& what) {
    std::cerr << "rekindle: --on-event: " << what << "\n";
  };
  const Fd in(::memfd_create("event", MFD_CLOEXEC));
  const std::string line = event + "\n";
  if (!in || !write_all(in.get(), "the event", 0, std::as_bytes(std::span(line))))
    return complain("no memory");
  // timeout(1) puts the command into a process group of its own. A signal that it gets goes to this group:
  // setpriv(1) has the kernel send one if this process is killed (since util-linux 2.33).
  const std::vector<std::string> watched = {"setpriv", "--pdeathsig", "TERM"};
  static const bool can_watch = [] {
    const auto tried = run_command({"setpriv", "--pdeathsig", "TERM", "true"}, kPatience);
    return tried && tried->ok();
  }();
  std::vector<std::string> words = can_watch ? watched : std::vector<std::string>{};
  words.insert(words.end(), {"timeout", "--signal=KILL", str(limit.count()), "/bin/sh", "-c", command});
  const auto done = run_command(words, limit + kPatience, {.environment = {}, .in = in.get()});
  if (!done) return complain(done.error().line());
  say_output(done->out);
  if (done->ok()) return;
  std::string why = done->err.substr(0, done->err.find_last_not_of('\n') + 1);
  why = why.substr(why.rfind('\n') + 1);
  complain(str(done->status.by_signal ? "ended by signal " : "exit code ", done->status.code,
               why.empty() ? "" : ": ", printable(why)));
}

// Until the next look. Whether end_signal() came meanwhile, which is blocked.
bool rest_or_end(LookClock::time_point begin) {
  const auto left = std::max<LookClock::duration>(kLook, LookClock::now() - begin);
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec time{.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, end_signal());
  return ::sigtimedwait(&end, nullptr, &time) == end_signal();
}

// Ctrl-C in the terminal of a run, or SIGTERM of a scheduler, is for its supervisor, which ends this process
// when the run has ended.
void leave_signals_to_parent() {
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, end_signal());
  ::sigprocmask(SIG_BLOCK, &end, nullptr);
  ignore_group_signals();
  ::prctl(PR_SET_PDEATHSIG, end_signal());
}

}  // namespace

Status watch_run(const fs::path& run_dir, const WatchOptions& options) {
  const run::Layout layout(run_dir, Trust::kForeign);
  const bool of_a_run = options.of_a_run_after.has_value();
  if (of_a_run)
    leave_signals_to_parent();  // the run directory is only being made
  else
    REKINDLE_CHECK(await_run(run_dir));
  using From = view::RunEvents::From;
  view::RunEvents events(layout, options.from_start || of_a_run ? From::kBeginning : From::kNow);
  std::uint64_t told_before = options.of_a_run_after.value_or(0);
  bool last = false;
  StaysLost lost;
  for (Patience patience;;) {
    const auto begin = LookClock::now();
    // Before the events are read, so that the last one is among them.
    const view::Outcome outcome =
        of_a_run ? view::Outcome::kGoesOn : view::outcome_of(view::summarize(run_dir));
    const auto fresh = events.read_new();
    if (!patience.allows(fresh)) return forward_error(fresh.error());
    for (const view::RunEvent& event : fresh.value_or(std::vector<view::RunEvent>())) {
      if (told_before > 0) {
        --told_before;
        continue;
      }
      const std::string json =
          event.json(layout).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
      if (!of_a_run)
        std::cout << (options.json ? json : str(printable(event.at), "  ", event.text)) << "\n" << std::flush;
      if (!options.on_event.empty())
        tell(options.on_event, std::chrono::seconds(options.event_limit_s), json);
    }
    if (!std::cout && options.on_event.empty()) return fail("the output is closed");
    if (last || (fresh && outcome == view::Outcome::kFinished)) return {};
    if (fresh && outcome == view::Outcome::kFailed)
      return fail("the run has failed", str("see rekindle status ", run_dir.string()));
    if (fresh && outcome == view::Outcome::kGaveUp)
      return fail(ExitCode::kSaved, "the run has saved its state, and is not queued again", kSubmitAgain);
    if (fresh && lost.holds(outcome == view::Outcome::kLost))
      return fail("the run ended without a report: was it killed?", kGoOn);
    if (of_a_run)
      last = rest_or_end(begin);
    else
      rest(begin);
  }
}

}  // namespace rekindle::app
