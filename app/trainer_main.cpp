// rekindle-trainer: one replica on one device (the only program with LibTorch).
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "app/describe.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "base/lifeline.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "model/allocator.hpp"
#include "model/model_task.hpp"
#include "run/layout.hpp"
#include "run/trust.hpp"
#include "trainer/process.hpp"

namespace rekindle::app {
namespace {

// `describe JOB CHANNELS`: what the front end needs to know of a job's model, as one line of JSON
// (app/describe.hpp).
int describe(const std::string& job, const std::string& channels) {
  const auto parsed = nlohmann::json::parse(job, nullptr, false);
  if (parsed.is_discarded())
    return report(Error{ExitCode::kUsage, "describe needs a job as JSON", "it is called by rekindle"});
  const auto spec = model::describe(parsed.get<protocol::Job>(), std::atoi(channels.c_str()));
  std::printf("%s\n", description_to_json(spec).dump().c_str());
  return 0;
}

int main(int argc, char** argv) {
  model::tune_allocator();  // must run before the first allocation
  if (argc == 4 && std::string(argv[1]) == "describe") return describe(argv[2], argv[3]);
  ignore_group_signals();
  allow_many_files();  // one file descriptor per peer
  CLI::App cli("A trainer of a rekindle run", "rekindle trainer");
  std::string run_dir, name;
  std::uint64_t inode = 0;
  std::optional<std::string> interface, port_range;
  cli.add_option(run::Layout::kDirectoryOption, run_dir)->required();
  cli.add_option(run::Layout::kInodeOption, inode, "inode that the run directory must have (default: any)");
  cli.add_option("--name", name)->required();
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
  // Before the first message to the worker, because the worker then watches the lifeline.
  auto lifeline = Lifeline::take(Fd(kInheritedFd + 1));
  if (!lifeline) return report(lifeline.error());
  if (auto held = lifeline->hold(); !held) return report(held.error());
  if (inode == 0) inode = run::inode_of(run::Layout(run_dir)).value_or(0);
  const run::Layout layout(run_dir, Trust::kOwn, inode);
  auto job = read_job(layout.config());
  if (!job) return report(job.error());
  trainer::TrainerConfig config{*job, layout, name, ""};
  if (interface) config.job.interface = *interface;
  if (port_range) config.job.port_range = *port_range;
  auto build = own_build();
  if (!build) return report(build.error());
  config.build = *build;
  start_logging("trainer " + config.trainer,
                layout.log("trainer-" + config.trainer.substr(0, config.trainer.find('-'))), LogLevel::kNone);
  const auto make_task = [](const protocol::Job& of) { return model::make_model_task(of); };
  if (auto status = trainer::run_trainer(config, make_task, Fd(kInheritedFd)); !status) {
    log_error(status.error().line());
    ::_exit(static_cast<int>(status.error().code));
  }
  ::_exit(0);  // LibTorch's own teardown takes most of a second and is not needed
}

}  // namespace
}  // namespace rekindle::app

int main(int argc, char** argv) { return rekindle::app::main(argc, argv); }
