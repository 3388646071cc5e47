// The options that the parts of a run (coordinator, worker, trainer) have in common. Another part starts
// them, not a person.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "app/report.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"
#include "run/trust.hpp"

namespace rekindle::app {

struct PartOptions {
  std::string run_dir;
  std::uint64_t inode = 0;
  std::optional<std::string> interface, port_range;

  void add_directory(CLI::App& part) {
    part.add_option(run::Layout::kDirectoryOption, run_dir)->required();
    part.add_option(run::Layout::kInodeOption, inode,
                    "inode that the run directory must have (default: any)");
  }
  void add_network(CLI::App& part) {
    part.add_option("--interface", interface, "where to listen (default: run.toml)");
    part.add_option("--port-range", port_range);
  }
  run::Layout layout() const {
    // Another launcher cannot pass the inode.
    const std::uint64_t its = inode != 0 ? inode : run::inode_of(run::Layout(run_dir)).value_or(0);
    return run::Layout(run_dir, Trust::kOwn, its);
  }
  void apply_to(protocol::Job& job) const {
    if (interface) job.interface = *interface;
    if (port_range) job.port_range = *port_range;
  }
};

// The exit code, if the command line does not start the part. `hint`: who starts it.
inline std::optional<int> parse_part(CLI::App& cli, int argc, char** argv, const char* hint) {
  try {
    cli.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", cli.help().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    return report(Error{ExitCode::kUsage, error.what(), hint});
  }
  return std::nullopt;
}

// The exit code of a worker that did not come up. After an error that may pass (storage that is away), it is
// started again, so the code must not be a deliberate one.
inline int worker_not_up(const Error& error) {
  const int code = report(error);
  return error.code == ExitCode::kGaveUp ? EXIT_FAILURE : code;
}

}  // namespace rekindle::app
