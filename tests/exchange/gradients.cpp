#include "gradients.hpp"

#include <cmath>

#include "base/random.hpp"

namespace rekindle::exchange::testing {

void fill_gradient(std::uint64_t step, int leaf, std::span<float> to) {
  Rng rng(stream_key(step, Draws::kInit, {static_cast<std::uint64_t>(leaf)}));
  for (float& x : to) {
    const std::uint64_t bits = rng.next();
    x = std::ldexp(static_cast<float>(static_cast<std::int32_t>(bits >> 32)), -static_cast<int>(bits % 50));
  }
}

std::vector<float> reference_sum(std::uint64_t step, LeafRange tree, std::size_t floats) {
  std::vector<float> sum(floats);
  if (tree.count == 1) {
    fill_gradient(step, tree.first, sum);
    return sum;
  }
  const int half = tree.count / 2;
  const auto left = reference_sum(step, {tree.first, half}, floats);
  const auto right = reference_sum(step, {tree.first + half, half}, floats);
  for (std::size_t i = 0; i < floats; ++i) sum[i] = left[i] + right[i];
  return sum;
}

Hash128 hash_floats(std::span<const float> floats) { return hash128(std::as_bytes(floats)); }

Hash128 reference_hash(std::uint64_t step, int leaves, std::size_t floats) {
  return hash_floats(reference_sum(step, {0, leaves}, floats));
}

Status compute_partials(Hub& hub, const Plan& plan, std::uint64_t step) {
  for (const LeafOp& op :
       leaf_ops(leaves_of(plan.leaves, static_cast<int>(plan.members.size()), plan.rank))) {
    REKINDLE_TRY(const std::span<float> to, hub.slot(op.to));
    if (op.kind == LeafOp::Kind::kCompute) {
      fill_gradient(step, op.leaf, to);
    } else {
      REKINDLE_TRY(const std::span<float> from, hub.slot(op.from));
      add_into(to.data(), from.data(), to.size());
    }
  }
  return {};
}

Result<Hash128> run_step(Hub& hub, Exchange& exchange, const Plan& plan, std::uint64_t step) {
  REKINDLE_CHECK(compute_partials(hub, plan, step));
  StepHeader header;
  header.sums[0].sum = static_cast<std::int64_t>(step) * 100 + plan.rank;
  REKINDLE_TRY(const Reduced reduced, exchange.reduce(header));
  for (std::size_t rank = 0; rank < plan.members.size(); ++rank)
    if (reduced.headers.at(rank).sums[0].sum != static_cast<std::int64_t>(step * 100 + rank))
      return fail("a wrong header");
  Hasher128 hasher;
  std::size_t next = 0;
  for (const SumPiece& piece : reduced.pieces) {
    if (piece.first != next) return fail("the pieces do not tile the arena");
    next += piece.sum.size();
    hasher.update(std::as_bytes(piece.sum));
  }
  if (next != hub.floats()) return fail("the pieces do not cover the arena");
  REKINDLE_CHECK(exchange.release());
  return hasher.digest();
}

}  // namespace rekindle::exchange::testing
