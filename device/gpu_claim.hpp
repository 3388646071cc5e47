// Which GPU of a machine a trainer takes: one that no other trainer of the machine has, if there is one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle::device {

struct ClaimedGpu {
  int index = 0;
  // To be kept as long as the process lives; the kernel ends them with it.
  std::vector<Fd> claims;
};

// Takes and opens a GPU. `identities`: Device::identity() of the GPUs that this process sees, at least one;
// "" for one that cannot tell it. `open(i)`: opens GPU i. Looks from GPU `number` modulo their number on, so
// that the trainers of a run have the GPUs of their numbers if all are free. A GPU that cannot be opened is
// passed over. If none is free, takes one that the fewest trainers have. Processes in other network
// namespaces are not noticed.
//
// `run`: the same for all trainers of a run, and "" for other processes. Errors: no GPU can be opened, and
// why. Or (kNotYet) one cannot be opened, none is free, and the run has other trainers here: with `number`
// below the number of GPUs, this one was not meant to share.
Result<ClaimedGpu> claim_gpu(std::span<const std::string> identities, int number, const std::string& run,
                             const std::function<Status(int index)>& open);

}  // namespace rekindle::device
