#include "exchange/layout.hpp"

#include <algorithm>
#include <bit>

#include "base/text.hpp"

namespace rekindle::exchange {
namespace {

std::uint64_t hash_text(const std::string& text) { return hash64(std::as_bytes(std::span(text))); }

}  // namespace

Layout make_layout(int leaves, int ranks) {
  Layout layout;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<LeafRange> trees = subtrees_of(leaves_of(leaves, ranks, rank));
    layout.partials.push_back(static_cast<int>(trees.size()));
    for (int slot = 0; slot < layout.partials.back(); ++slot) {
      layout.subtrees.push_back(trees[slot]);
      layout.contributions.push_back({rank, slot});
    }
  }
  return layout;
}

Status check_plan(const Plan& plan) {
  const int ranks = static_cast<int>(plan.members.size());
  if (plan.rank < 0 || plan.rank >= ranks)
    return fail(str("generation plan: rank ", plan.rank, " of ", ranks, " members"));
  if (plan.leaves < ranks || !std::has_single_bit(static_cast<unsigned>(plan.leaves)))
    return fail(str("generation plan: ", plan.leaves, " micro-batches for ", ranks, " members"),
                "the number of micro-batches must be a power of two, and at least the number of members");
  return {};
}

Backend choose_backend(const Plan& plan) {
  if (plan.backend != Backend::kAuto) return plan.backend;
  const bool one_host = std::all_of(plan.members.begin(), plan.members.end(),
                                    [&](const Endpoint& e) { return e.host == plan.members.front().host; });
  return one_host ? Backend::kSharedMemory : Backend::kTcp;
}

std::uint64_t plan_hash(const Plan& plan) {
  std::string text = str(plan.term, ' ', plan.generation, ' ', plan.leaves);
  for (const Endpoint& member : plan.members) text += str(' ', member.nonce);
  return hash_text(text);
}

Status check_copy(RankPieces pieces, const std::vector<bool>& receives, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  if (pieces.size() == count && receives.size() == count) return {};
  return fail(
      str("all_gather of ", pieces.size(), " ranks' pieces to ", receives.size(), " ranks among ", ranks));
}

std::uint64_t copy_hash(RankPieces pieces, const std::vector<bool>& receives) {
  std::string text;
  for (const bool receiver : receives) text += receiver ? 'r' : '-';
  for (const auto& of_rank : pieces) {
    for (const auto& piece : of_rank) text += str(piece.size(), ' ');
    text += '/';
  }
  return hash_text(text);
}

}  // namespace rekindle::exchange
