#include "device/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "optim/average.hpp"

namespace rekindle::device {
namespace {

void run(const Fill& k) { std::fill_n(k.to, k.count, k.value); }

void run(const AddInto& k) {
  for (std::size_t i = 0; i < k.count; ++i) k.to[i] = k.to[i] + k.from[i];
}

void run(const Scale& k) {
  for (std::size_t i = 0; i < k.count; ++i) k.to[i] = k.factor * k.from[i];
}

void run(const MoveTowards& k) {
  for (std::size_t i = 0; i < k.count; ++i) k.to[i] = optim::moved_towards(k.to[i], k.from[i], k.weight);
}

void run(const TreeSum& k) {
  for (std::size_t i = 0; i < k.count; ++i) k.to[i] = tree_sum(k, i);
}

void run(const Update& k) {
  const std::span<float> states[] = {{k.states[0], k.count}, {k.states[1], k.count}};
  optim::update_on_host(k.formula, {k.parameters, k.count}, states, {k.sum, k.count});
}

void run(const SquaresInto& k) {
  for (std::size_t sum = 0; sum < kNormSums; ++sum) add_squares(k, sum);
}

void run(const Pieces& k) {
  for (const Pieces::Piece& piece : std::span(k.piece).first(static_cast<std::size_t>(k.pieces))) {
    if (piece.scaled)
      run(Scale{piece.to, piece.from, k.factor, piece.count});
    else
      std::memcpy(piece.to, piece.from, piece.count * sizeof(float));
  }
}

void run(const DigestInto& k) {
  for (std::size_t i = 0; i < k.words(); ++i) add_word(k, i, k.sums[0], k.sums[1]);
}

}  // namespace

void run_on_host(const Kernel& kernel) {
  std::visit([](const auto& each) { run(each); }, kernel);
}

}  // namespace rekindle::device
