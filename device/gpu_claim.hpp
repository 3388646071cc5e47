// Which GPU of a machine a trainer takes: one that no other trainer of the machine has, if there is one.
#pragma once

#include <span>
#include <string>

#include "base/files.hpp"

namespace rekindle::device {

struct ClaimedGpu {
  int index = 0;
  Fd claim;  // to be kept as long as the GPU is used; the kernel ends it with the process
};

// `identities`: Device::identity() of the GPUs that this process sees, at least one. Looks from GPU `number`
// modulo their number on, so that the trainers of a run have the GPUs of their numbers if all are free. If
// none is free, takes one that the fewest trainers have. Processes in other network namespaces are not
// noticed.
ClaimedGpu claim_gpu(std::span<const std::string> identities, int number);

}  // namespace rekindle::device
