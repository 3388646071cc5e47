// Which of a machine's devices a trainer takes.
#pragma once

#include <string>

namespace rekindle::device {

// The number of this trainer among those of its machine, from the environment variable LOCAL_RANK, which its
// worker sets; 0 without one.
int local_rank();

// The same for all trainers of a run, from REKINDLE_RUN, which workers set; "" in other processes.
std::string run_of_trainer();

}  // namespace rekindle::device
