#include "trainer/replica_state.hpp"

#include <vector>

#include "base/text.hpp"

namespace rekindle::trainer {

using checkpoint::Manifest;
using checkpoint::State;

Result<std::uint64_t> restore(model::Replica& replica, exchange::Exchange& exchange,
                              const std::filesystem::path& checkpoint_dir, int ranks, int rank) {
  REKINDLE_TRY(const Manifest manifest, checkpoint::read_manifest(checkpoint_dir));
  const State state = replica.state();
  checkpoint::StateSpec spec;
  for (const checkpoint::Tensor& tensor : state) spec.push_back(tensor.spec);
  if (spec != manifest.tensors) {
    return fail(ExitCode::kConfig, str(checkpoint_dir.string(), " holds another model's tensors"));
  }
  REKINDLE_CHECK(checkpoint::read_part(checkpoint_dir, manifest, ranks, rank, state));
  std::vector<std::vector<std::span<std::byte>>> pieces(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    for (const checkpoint::ByteRange& range : checkpoint::part_ranges(manifest, ranks, r)) {
      pieces[static_cast<std::size_t>(r)].push_back(
          state[range.tensor].bytes.subspan(range.offset, range.bytes));
    }
  }
  REKINDLE_CHECK(exchange.all_gather(pieces));
  const std::string digest = checkpoint::state_digest(manifest.id.step, state).hex();
  if (digest != manifest.digest) {
    return fail(str("the state in ", checkpoint_dir.string(), " has digest ", digest, ", its manifest says ",
                    manifest.digest));
  }
  REKINDLE_CHECK(replica.upload());
  return manifest.id.step;
}

Result<Saved> save(model::Replica& replica, const std::filesystem::path& run_dir,
                   const checkpoint::CheckpointId& id, int ranks, int rank) {
  REKINDLE_CHECK(replica.download());
  const State state = replica.state();
  Saved saved;
  saved.digest = checkpoint::state_digest(id.step, state).hex();
  REKINDLE_TRY(const checkpoint::ShardEntry shard, checkpoint::write_shard(run_dir, id, state, ranks, rank));
  saved.shard = checkpoint::to_json(shard);
  if (rank == 0) {
    checkpoint::StateSpec spec;
    for (const checkpoint::Tensor& tensor : state) spec.push_back(tensor.spec);
    saved.tensors = checkpoint::to_json(spec);
  }
  return saved;
}

}  // namespace rekindle::trainer
