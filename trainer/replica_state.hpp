// A replica's state from peers and checkpoint files.
#pragma once

#include <cstdint>
#include <string>
#include "base/file_path.hpp"

#include "base/result.hpp"
#include "checkpoint/checkpoint.hpp"
#include "exchange/exchange.hpp"
#include "model/model.hpp"
#include "protocol/messages.hpp"
#include "protocol/trainer_control.hpp"

namespace rekindle::trainer {

// Fills the replica from a committed checkpoint: each rank reads and verifies its part, the exchange gathers
// the rest, and the digest of the whole is compared with the manifest's. Collective. Returns the checkpoint's
// step.
Result<std::uint64_t> restore(model::Replica& replica, exchange::Exchange& exchange,
                              const FilePath& checkpoint_dir, int ranks, int rank);

// The state at `start.step` from the ranks that hold it to those that do not. Collective. `held` is none from
// the first byte that is overwritten until all ranks' hashes are alike, and stays as it is at a source.
// Returns how the hashes compare.
Result<protocol::Comparison> copy(model::Replica& replica, exchange::Exchange& exchange,
                                  const protocol::Start& start, protocol::Held& held);

}  // namespace rekindle::trainer
