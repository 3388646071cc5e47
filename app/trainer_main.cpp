// rekindle-trainer: one replica on one device (LibTorch lives here and nowhere else).
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "app/report.hpp"
#include "app/run_config.hpp"
#include "base/lifeline.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "model/allocator.hpp"
#include "run/layout.hpp"
#include "trainer/trainer.hpp"

namespace rekindle::app {
namespace {

int main(int argc, char** argv) {
  model::tune_allocator();  // before anything is allocated
  ignore_group_signals();
  allow_many_files();  // one for each peer
  CLI::App cli("A trainer of a rekindle run", "rekindle trainer");
  trainer::TrainerConfig config;
  std::string run_dir;
  std::optional<std::string> interface, port_range;
  cli.add_option("--run-dir", run_dir)->required();
  cli.add_option("--name", config.trainer)->required();
  cli.add_option("--interface", interface, "where to listen (default: run.toml)");
  cli.add_option("--port-range", port_range);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", cli.help().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    return report(Error{ExitCode::kUsage, error.what(), "trainers are started by their worker"});
  }
  config.run_dir = run_dir;
  // Before the first word to the worker, which then watches it.
  auto lifeline = Lifeline::take(Fd(kInheritedFd + 1));
  if (!lifeline) return report(lifeline.error());
  if (auto held = lifeline->hold(); !held) return report(held.error());
  const run::Layout layout{config.run_dir};
  auto job = read_job(layout.config());
  if (!job) return report(job.error());
  config.job = *job;
  if (interface) config.job.interface = *interface;
  if (port_range) config.job.port_range = *port_range;
  auto build = own_build();
  if (!build) return report(build.error());
  config.build = *build;
  start_logging("trainer " + config.trainer,
                layout.log("trainer-" + config.trainer.substr(0, config.trainer.find('-'))), LogLevel::kNone);
  if (auto status = trainer::run_trainer(config, Fd(kInheritedFd)); !status) {
    log_error(status.error().line());
    ::_exit(static_cast<int>(status.error().code));
  }
  ::_exit(0);  // LibTorch's own teardown takes most of a second and helps nobody
}

}  // namespace
}  // namespace rekindle::app

int main(int argc, char** argv) { return rekindle::app::main(argc, argv); }
