#include "app/join.hpp"

#include <chrono>
#include <cstdio>
#include <span>

#include "app/prepare.hpp"
#include "app/run_config.hpp"
#include "app/signals.hpp"
#include "app/workers.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"
#include "run/privacy.hpp"

namespace rekindle::app {
namespace {

Result<int> join(const JoinOptions& options) {
  const run::Layout layout(options.run_dir);
  // A run that has just begun on another node.
  constexpr std::chrono::seconds kSeenWithin{5};
  if (!await_file(layout.config(), kSeenWithin) || !await_file(layout.private_key(), kSeenWithin)) {
    return fail(ExitCode::kConfig, str(options.run_dir.string(), " holds no run that can be joined"),
                "start one there with rekindle local");
  }
  REKINDLE_CHECK(run::check_private(layout));
  REKINDLE_TRY(const Fd signals, take_signals());
  REKINDLE_TRY(const protocol::Job job, read_job(layout.config()));
  const std::string interface = options.interface.empty() ? job.interface : options.interface;
  const std::string port_range = options.port_range.empty() ? job.port_range : options.port_range;
  REKINDLE_CHECK(check_network(interface, port_range));
  ThisMachine machine(options.workers);
  Workers workers(machine, {"worker", "--run-dir", options.run_dir, "--joined", "--wait-ms",
                        str(options.wait.count()), "--interface", interface, "--port-range", port_range});
  REKINDLE_CHECK(workers.start_all(0));
  while (!workers.done()) {
    std::vector<pollfd> waits{{signals.get(), POLLIN, 0}};
    workers.watch(waits);
    if (::poll(waits.data(), waits.size(), static_cast<int>(kTurn.count())) < 0) continue;
    workers.reap(std::span(waits).subspan(1));
    if (waits[0].revents != 0) break;  // the run goes on without these workers
    workers.restart_due();
  }
  workers.kill_all();
  // The run's own end, stopped or finished, is a good end for whoever helped.
  const auto last = static_cast<ExitCode>(workers.exit_code());
  if (last == ExitCode::kConfig || last == ExitCode::kGaveUp) {
    return fail(last, "the run does not take these workers",
                str("see ", layout.logs().string(), "/worker-w0.log"));
  }
  return 0;
}

}  // namespace

int run_join(const JoinOptions& options) {
  auto exit_code = join(options);
  if (exit_code) return *exit_code;
  std::fprintf(stderr, "rekindle: %s\n", exit_code.error().line().c_str());
  return static_cast<int>(exit_code.error().code);
}

}  // namespace rekindle::app
