// Which of a machine's devices a trainer takes.
#pragma once

namespace rekindle::device {

// The number of this trainer among those of its machine, from the environment variable LOCAL_RANK, which its
// worker sets; 0 without one.
int local_rank();

}  // namespace rekindle::device
