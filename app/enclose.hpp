// The part of a contained worker that stays outside of the container, on each node of a Slurm job:
//
//   rekindle-control enclose RUN'S OPTIONS [--successor TEXT] -- COMMAND...
//
// It starts COMMAND, the worker in its container, whose stdin ends when the worker is to leave. It does what
// needs Slurm's commands: prints signals for the supervisor, and looks after the batch host (BatchHostWatch).
#pragma once

namespace rekindle::app {

inline constexpr const char* kEnclose = "enclose";

// Returns the exit code of the command; 128 + n if signal n ended it.
int enclose(int argc, char** argv);

}  // namespace rekindle::app
