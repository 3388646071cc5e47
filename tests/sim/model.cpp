#include "model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "base/hash.hpp"
#include "base/random.hpp"
#include "exchange/tree.hpp"
#include "optim/clip.hpp"
#include "protocol/training.hpp"
#include "trainer/buffer_proof.hpp"

namespace rekindle::sim {
namespace {

using checkpoint::Dtype;
using checkpoint::Role;
using trainer::TensorPlace;

enum Tensor : std::size_t { kWeight, kBias, kMean, kCount };

const checkpoint::StateSpec& model_spec() {
  static const checkpoint::StateSpec kSpec = {{"weight", Dtype::kFloat32, {20}, Role::kParameter},
                                              {"bias", Dtype::kFloat32, {3}, Role::kParameter},
                                              {"mean", Dtype::kFloat32, {5}, Role::kBuffer},
                                              {"count", Dtype::kInt64, {1}, Role::kBuffer}};
  return kSpec;
}

trainer::UpdateOptions update_options(const protocol::Job& job) {
  return {.optimizer = {.name = "adam", .weight_decay = 0.01},
          .groups = {},
          .average = job.ema,
          .micro_batches = static_cast<int>(job.micro_batches)};
}

float float_of(std::uint64_t bits) { return static_cast<float>(bits >> 40) * 0x1p-24F - 0.5F; }

std::span<float> floats_of(const TensorPlace& place, std::span<float> memory) {
  return memory.subspan(place.offset, place.floats);
}

void draw(std::uint64_t key, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float_of(mix64(key + i));
}

State bytes_of(const checkpoint::State& tensors) {
  State all;
  for (const checkpoint::Tensor& tensor : tensors)
    all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
  return all;
}

}  // namespace

Model::Model(const protocol::Job& job, std::uint64_t seed)
    : micro_batches_(static_cast<int>(job.micro_batches)),
      clips_(job.clip_norm > 0),
      seed_(seed),
      host_(std::move(
          trainer::HostState::make(trainer::StateLayout(model_spec()), update_options(job)).value())),
      tensors_(host_->state()) {
  if (layout().floats() != kFloats) throw std::logic_error("kFloats is not the layout's size");
  initialize();
}

void Model::initialize() {
  for (const checkpoint::Tensor& tensor : tensors_) std::ranges::fill(tensor.bytes, std::byte{0});
  for (const Tensor each : {kWeight, kBias, kMean})
    draw(seed_ + 77 * (each + 1), floats_of(layout().tensors()[each], host_->values()));
}

State Model::snapshot() const { return bytes_of(tensors_); }

void Model::flip_bit() {
  float& value = host_->values()[layout().tensors()[kWeight].offset];
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1U);
}

void Model::train(std::uint64_t step, int micro_batch, std::span<float> gradient) {
  const auto number = static_cast<std::uint64_t>(micro_batch);
  const std::uint64_t key = hash64(snapshot()) + 0x9e3779b97f4a7c15ULL * (step * 64 + number + 1);
  const auto place = [&](Tensor tensor) { return layout().tensors()[tensor]; };
  std::ranges::fill(gradient, 0.0F);
  gradient[kWeight] = 1;
  draw(key, floats_of(place(kWeight), gradient));
  if (step % 3 != 0 && micro_batch % 2 == 0) {
    gradient[kBias] = 1;
    draw(key + 100, floats_of(place(kBias), gradient));
  }
  std::ranges::copy(floats_of(place(kMean), host_->values()), floats_of(place(kMean), gradient).begin());
  if (step % 4 != 0) {
    gradient[kMean] = 1;
    for (float& value : floats_of(place(kMean), gradient))
      value = 0.9F * value + 0.1F * float_of(mix64(key + 200));
  }
  std::int64_t count = 0;
  std::memcpy(&count, host_->value_of(place(kCount)).data(), sizeof count);
  ++count;
  std::memcpy(proposed_.data(), &count, sizeof count);
  gradient[kCount] = 1;
  trainer::write_proof(proposed_, floats_of(place(kCount), gradient).first<trainer::kProofFloats>());
  host_->propose(kCount, proposed_);
  const auto bad = static_cast<int>(step % static_cast<std::uint64_t>(micro_batches_));
  if (clips_ && mix64(seed_ ^ mix64(step)) % 8 == 0 && micro_batch == bad)
    floats_of(place(kWeight), gradient)[step % 20] = std::numeric_limits<float>::infinity();
}

// ---- states that nobody trains ----

checkpoint::State tensors_of(State& bytes) {
  static const checkpoint::StateSpec kSpec = [] {
    protocol::Job job;
    job.ema = 0.5;
    return checkpoint::spec_of(Model(job, 1).host().state());
  }();
  std::size_t total = 0;
  for (const checkpoint::TensorSpec& spec : kSpec) total += spec.bytes();
  bytes.resize(total);
  checkpoint::State state;
  std::size_t first = 0;
  for (const checkpoint::TensorSpec& spec : kSpec) {
    state.push_back({spec, std::span(bytes).subspan(first, spec.bytes())});
    first += spec.bytes();
  }
  return state;
}

RightStates::RightStates(const protocol::Job& job, std::uint64_t seed)
    : job_(job), model_(job, seed), states_{model_.snapshot()} {}

const State& RightStates::at(std::uint64_t step) {
  while (states_.size() <= step) make_step();
  return states_[step];
}

void RightStates::make_step() {
  const std::uint64_t step = states_.size() - 1;
  const auto micro_batches = static_cast<int>(job_.micro_batches);
  std::vector<Gradient> gradients(job_.micro_batches);
  std::vector<exchange::LeafRange> leaves;
  std::vector<const float*> partials;
  for (int i = 0; i < micro_batches; ++i) {
    Gradient& gradient = gradients[static_cast<std::size_t>(i)];
    model_.train(step, i, gradient);
    leaves.push_back({i, 1});
    partials.push_back(gradient.data());
  }
  Gradient sum{};
  exchange::finish_tree(micro_batches, leaves, partials, sum.data(), kFloats);
  optim::Step update{.number = step,
                     .scale = 1.0F / static_cast<float>(micro_batches),
                     .learning_rate = protocol::learning_rate(job_, step)};
  bool voided = false;
  if (job_.clip_norm > 0) {
    const std::size_t first = model_.layout().first_parameter_float();
    optim::SquaredNorm squares;
    squares.add(std::span(sum).subspan(first, model_.layout().end_of_parameters() - first));
    const double norm = update.scale * std::sqrt(squares.value());
    voided = !std::isfinite(norm);
    if (!voided) update.scale *= static_cast<float>(optim::clip_factor(norm, job_.clip_norm));
  }
  if (!voided) model_.host().update(0, sum, update);
  if (!model_.host().finish_update()) throw std::logic_error("the micro-batches disagree");
  states_.push_back(model_.snapshot());
}

}  // namespace rekindle::sim
