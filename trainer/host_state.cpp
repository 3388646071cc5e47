#include "trainer/host_state.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "optim/average.hpp"
#include "trainer/buffer_proof.hpp"

namespace rekindle::trainer {
namespace {

// The part of [a_first, a_end) in [b_first, b_end), as first and end; empty if first >= end.
std::pair<std::size_t, std::size_t> overlap(std::size_t a_first, std::size_t a_end, std::size_t b_first,
                                            std::size_t b_end) {
  return {std::max(a_first, b_first), std::min(a_end, b_end)};
}

}  // namespace

checkpoint::StateSpec spec_of_state(const StateLayout& layout, const UpdatePlan& plan, bool average) {
  checkpoint::StateSpec spec;
  for (const TensorPlace& place : layout.tensors()) spec.push_back(place.spec);
  const auto add = [&](const std::string& prefix, const TensorPlace& place) {
    spec.push_back({prefix + "." + place.spec.name, checkpoint::Dtype::kFloat32, place.spec.shape,
                    checkpoint::Role::kOptimizer});
  };
  for (const std::string& state : plan.optimizer_states()) {
    for (const TensorPlace& place : layout.tensors())
      if (place.is_parameter()) add(state, place);
  }
  for (const TensorPlace& place : layout.tensors())
    if (average && place.is_float()) add(checkpoint::kAverage, place);
  if (plan.counts())
    spec.push_back({checkpoint::kUpdateCounters,
                    checkpoint::Dtype::kInt32,
                    {static_cast<std::int64_t>(UpdatePlan::counters(layout))},
                    checkpoint::Role::kOptimizer});
  return spec;
}

Error disagreement(const TensorPlace& place) {
  const bool of_batch_norm = place.spec.name.ends_with("num_batches_tracked");
  return {ExitCode::kConfig,
          str("the micro-batches of a step give buffer ", place.spec.name, " (",
              checkpoint::name_of(place.spec.dtype), ") different values"),
          of_batch_norm
              ? "not every micro-batch calls this batch norm: set bn.num_batches_tracked = None (in C++: "
                "bn->num_batches_tracked.reset())"
              : "only float32 buffers can be averaged, others may only count; a new run with "
                "--micro-batches 1 averages none"};
}

Result<std::unique_ptr<HostState>> HostState::make(const StateLayout& layout, const UpdateOptions& options) {
  REKINDLE_TRY(UpdatePlan plan, UpdatePlan::make(layout, options));
  return std::unique_ptr<HostState>(new HostState(layout, std::move(plan), options));
}

HostState::HostState(const StateLayout& layout, UpdatePlan plan, const UpdateOptions& options)
    : layout_(layout),
      plan_(std::move(plan)),
      average_decay_(options.average),
      optimizer_states_(plan_.optimizer_states().size()),
      proposed_(layout.tensors().size()) {
  const std::size_t arenas = 1 + optimizer_states_ + (average_decay_ > 0 ? 1 : 0);
  for (std::size_t i = 0; i < arenas; ++i) arenas_.emplace_back(layout_.floats() * sizeof(float));
}

void HostState::keep_from_children() {
  for (Pages& arena : arenas_) ::madvise(arena.bytes().data(), arena.bytes().size(), MADV_DONTFORK);
}

checkpoint::State HostState::state() {
  const checkpoint::StateSpec spec = spec_of_state(layout_, plan_, average_decay_ > 0);
  checkpoint::State state;
  const auto add = [&](std::span<std::byte> bytes) { state.push_back({spec[state.size()], bytes}); };
  const auto place_in = [&](Pages& arena, const TensorPlace& place) {
    return arena.bytes().subspan(place.offset * sizeof(float), place.spec.bytes());
  };
  for (const TensorPlace& place : layout_.tensors()) add(place_in(arenas_[0], place));
  for (std::size_t s = 0; s < optimizer_states_; ++s) {
    for (const TensorPlace& place : layout_.tensors())
      if (place.is_parameter()) add(place_in(arenas_[1 + s], place));
  }
  for (const TensorPlace& place : layout_.tensors())
    if (average_decay_ > 0 && place.is_float()) add(place_in(arenas_.back(), place));
  if (plan_.counts()) add(std::as_writable_bytes(counters()));
  return state;
}

Arenas HostState::arenas() const {
  Arenas arenas;
  for (const Pages& arena : arenas_) arenas.push_back(arena.bytes());
  return arenas;
}

std::vector<std::span<std::byte>> HostState::memory() {
  std::vector<std::span<std::byte>> memory;
  for (Pages& arena : arenas_) memory.push_back(arena.bytes());
  return memory;
}

std::span<float> HostState::average() {
  return average_decay_ > 0 ? arenas_.back().floats() : std::span<float>();
}

bool HostState::averaged() { return average_decay_ > 0 && counters()[0] > 0; }

std::span<std::byte> HostState::value_of(const TensorPlace& place) {
  return arenas_[0].bytes().subspan(place.offset * sizeof(float), place.spec.bytes());
}

// In the header of the values, which has no other use.
std::span<std::int32_t> HostState::counters() {
  if (!plan_.counts()) return {};
  return {reinterpret_cast<std::int32_t*>(arenas_[0].bytes().data()), UpdatePlan::counters(layout_)};
}

void HostState::update(std::size_t first, std::span<const float> sum, const optim::Step& step) {
  plan_.take_header(first, sum, step, counters());
  const std::size_t end = first + sum.size();
  update_parameters(first, sum);
  for (std::size_t i = layout_.parameters(); i < layout_.tensors().size(); ++i) {
    const TensorPlace& place = layout_.tensors()[i];
    const auto [from, to] = overlap(place.offset, place.end(), first, end);
    if (from < to) update_buffer(i, from, sum.subspan(from - first, to - from));
  }
  if (average_decay_ > 0) update_average(first, sum.size());
}

void HostState::update_parameters(std::size_t first, std::span<const float> sum) {
  for (const UpdateRun& run : plan_.runs()) {
    const auto [from, to] = overlap(run.first, run.end, first, first + sum.size());
    if (from >= to) continue;
    std::vector<std::span<float>> states;
    for (std::size_t s = 0; s < optimizer_states_; ++s)
      states.push_back(arenas_[1 + s].floats().subspan(from, to - from));
    run.optimizer->update(run.step, values().subspan(from, to - from), states,
                          sum.subspan(from - first, to - from));
  }
}

void HostState::update_buffer(std::size_t tensor, std::size_t first, std::span<const float> sum) {
  if (!plan_.changed(tensor)) return;
  const TensorPlace& place = layout_.tensors()[tensor];
  if (place.is_float()) {
    for (std::size_t i = 0; i < sum.size(); ++i) values()[first + i] = plan_.mean() * sum[i];
    return;
  }
  const std::span<const std::byte> proposed = proposed_[tensor];
  if (first == place.offset &&
      (proposed.size() != place.spec.bytes() ||
       !all_agree(sum.first<kProofFloats>(), static_cast<std::size_t>(plan_.micro_batches())))) {
    failure_ = forward_error(disagreement(place));
    return;
  }
  const auto [from, to] = overlap((first - place.offset) * sizeof(float),
                                  (first - place.offset + sum.size()) * sizeof(float), 0, proposed.size());
  if (failure_ && from < to)
    std::ranges::copy(proposed.subspan(from, to - from),
                      value_of(place).begin() + static_cast<std::ptrdiff_t>(from));
}

void HostState::update_average(std::size_t first, std::size_t count) {
  const auto [from, to] = overlap(layout_.header_floats(), layout_.floats(), first, first + count);
  if (from >= to) return;
  optim::average(plan_.is_first() ? 0 : average_decay_, average().subspan(from, to - from),
                 values().subspan(from, to - from));
}

Status HostState::finish_update() {
  for (auto& proposed : proposed_) proposed = {};
  return std::exchange(failure_, Status());
}

}  // namespace rekindle::trainer
