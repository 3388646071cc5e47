#include "trainer/replica_state.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "exchange/failure.hpp"

namespace rekindle::trainer {

using checkpoint::Manifest;
using checkpoint::State;

namespace {

// Part `part` of `parts` of the state, as ranges of bytes. The parts are nearly equal in size, and the same
// on every rank.
std::vector<std::span<std::byte>> part_of(const State& state, int parts, int part) {
  std::vector<std::span<std::byte>> pieces;
  for (const checkpoint::Slice& slice : checkpoint::part_of(checkpoint::spec_of(state), parts, part))
    pieces.push_back(checkpoint::bytes_of(state, slice));
  return pieces;
}

std::string text_of(const checkpoint::TensorSpec& spec) {
  std::string shape;
  for (const std::int64_t size : spec.shape) shape += str(shape.empty() ? "" : ", ", size);
  return str(spec.name, " (", checkpoint::name_of(spec.dtype), ", [", shape, "])");
}

// The first tensor that is not the same in both, for a message.
std::string difference(const checkpoint::StateSpec& saved, const checkpoint::StateSpec& here) {
  const auto [there, ours] = std::ranges::mismatch(saved, here);
  return str("it has ", there == saved.end() ? "nothing" : text_of(*there), " where this model has ",
             ours == here.end() ? "nothing" : text_of(*ours));
}

}  // namespace

Result<std::uint64_t> restore(Task& task, exchange::Exchange& exchange, Storage& storage, Link& link,
                              const protocol::Start& start) {
  const std::string& name = start.restore;
  const int ranks = static_cast<int>(start.members.size());
  REKINDLE_TRY(const Manifest manifest, storage.read_manifest(name));
  const State state = task.state();
  if (const auto spec = checkpoint::spec_of(state); spec != manifest.contents.tensors) {
    return fail(ExitCode::kConfig,
                str("checkpoint ", name,
                    " holds another model's tensors: ", difference(manifest.contents.tensors, spec)),
                "use the rekindle, the script and the options that wrote it");
  }
  const auto each_block = [&link]() -> Status {
    link.progress();
    if (link.aborted()) return forward_error(exchange::aborted_error());
    return {};
  };
  REKINDLE_CHECK(storage.read_part(name, manifest, ranks, start.rank, state, each_block));
  std::vector<std::vector<std::span<std::byte>>> pieces(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) pieces[static_cast<std::size_t>(r)] = part_of(state, ranks, r);
  REKINDLE_CHECK(exchange.all_gather(pieces));
  const std::string digest = checkpoint::state_digest(manifest.id.step, state).hex();
  // Each rank has verified the part that it read, so the files are intact: the memory or the network between
  // two ranks is faulty.
  if (digest != manifest.digest) {
    return fail(str("the state restored from checkpoint ", name, " has digest ", digest,
                    ", but its manifest has ", manifest.digest, ": suspect the memory or the network"));
  }
  REKINDLE_CHECK(of_task(task.upload()));
  return manifest.id.step;
}

Result<protocol::Comparison> copy(Task& task, exchange::Exchange& exchange, const protocol::Start& start,
                                  protocol::ReplicaState& replica) {
  const std::size_t ranks = start.members.size();
  std::vector<bool> receives(ranks, true);
  for (const int source : start.sources) receives[static_cast<std::size_t>(source)] = false;
  const bool receiver = receives[static_cast<std::size_t>(start.rank)];
  if (!receiver) REKINDLE_CHECK(of_task(task.download()));
  const State state = task.state();
  std::vector<std::vector<std::span<std::byte>>> pieces(ranks);
  for (std::size_t i = 0; i < start.sources.size(); ++i)
    pieces[static_cast<std::size_t>(start.sources[i])] =
        part_of(state, static_cast<int>(start.sources.size()), static_cast<int>(i));
  if (receiver) replica = {false, 0};
  REKINDLE_CHECK(exchange.all_gather(pieces, receives));
  exchange::StepHeader mine;
  mine.state_hash = checkpoint::state_digest(start.step, state);
  REKINDLE_TRY(const auto headers, exchange.gather(mine));
  std::vector<Hash128> hashes;
  for (const exchange::StepHeader& header : headers) hashes.push_back(header.state_hash);
  protocol::Comparison compared = protocol::compare_hashes(hashes);
  if (!compared.equal || !receiver) return compared;
  REKINDLE_CHECK(of_task(task.upload()));
  replica = {true, start.step};
  return compared;
}

}  // namespace rekindle::trainer
