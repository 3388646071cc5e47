// Fills the state of a replica from peers or from a checkpoint.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "exchange/exchange.hpp"
#include "protocol/messages.hpp"
#include "protocol/trainer_control.hpp"
#include "trainer/link.hpp"
#include "trainer/storage.hpp"
#include "trainer/task.hpp"

namespace rekindle::trainer {

// Fills the replica from the committed checkpoint `start.restore`: each rank reads and verifies one part, the
// exchange gathers the others, and the digest of the complete state is compared with the manifest.
// Collective. Returns the step of the checkpoint. Each block of the read counts as progress, and an abort
// ends the read.
Result<std::uint64_t> restore(Task& task, exchange::Exchange& exchange, Storage& storage, Link& link,
                              const protocol::Start& start);

// Copies the state of `start.step` from the sources to all other ranks. Collective. On a receiver, `replica`
// is invalid from before the ranks agree on the copy until the hashes of all ranks are equal and the state is
// on its device; on a source it does not change. Returns the comparison of the hashes.
Result<protocol::Comparison> copy(Task& task, exchange::Exchange& exchange, const protocol::Start& start,
                                  protocol::ReplicaState& replica);

}  // namespace rekindle::trainer
