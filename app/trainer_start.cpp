#include "app/trainer_start.hpp"

#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <string>
#include <utility>

#include "app/part_options.hpp"
#include "app/report.hpp"
#include "app/run_config.hpp"
#include "app/script_copy.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

std::optional<int> start_trainer(int argc, char** argv, const std::filesystem::path& build,
                                 StartedTrainer& started) {
  // A suspended trainer cannot see that its worker has died.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ignore_group_signals();
  allow_many_files();  // one file descriptor per peer
  CLI::App cli("A trainer of a rekindle run", "rekindle trainer");
  PartOptions part;
  std::string name;
  part.add_directory(cli);
  part.add_network(cli);
  cli.add_option("--name", name)->required();
  if (const auto code = parse_part(cli, argc, argv, "trainers are started by their worker")) return *code;
  // Before the first message to the worker, because the worker then watches the lifeline.
  auto lifeline = Lifeline::take(Fd(kInheritedFd + 1));
  if (!lifeline) return report(lifeline.error());
  started.lifeline.emplace(std::move(*lifeline));
  if (auto held = started.lifeline->hold(); !held) return report(held.error());
  const run::Layout layout = part.layout();
  auto job = read_job(layout.config());
  if (!job) return report(job.error());
  part.apply_to(*job);
  find_script_here(*job, layout);
  auto build_text = build_of(build);
  if (!build_text) return report(build_text.error());
  start_logging("trainer " + name, layout.log("trainer-" + name.substr(0, name.find('-'))), LogLevel::kNone);
  started.config.emplace(trainer::TrainerConfig{std::move(*job), layout, name, *build_text});
  return std::nullopt;
}

}  // namespace rekindle::app
