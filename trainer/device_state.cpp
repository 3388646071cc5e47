#include "trainer/device_state.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "trainer/buffer_proof.hpp"

namespace rekindle::trainer {
namespace {

constexpr std::size_t kLongPiece = 16384;  // floats; worth a launch of its own

}  // namespace

Result<std::unique_ptr<DeviceState>> DeviceState::make(const StateLayout& layout,
                                                       const UpdateOptions& options, device::Place place) {
  REKINDLE_TRY(std::unique_ptr<HostState> host, HostState::make(layout, options));
  REKINDLE_TRY(UpdatePlan plan, UpdatePlan::make(layout, options));
  if (!plan.has_formula())
    return fail(ExitCode::kConfig, str("the optimizer ", options.optimizer.name, " has no formula for GPUs"),
                "use another --optimizer, or --device cpu");
  std::unique_ptr<DeviceState> made(new DeviceState(std::move(host), std::move(plan), options, place));
  for (std::size_t i = 0; i < made->host_->arenas().size(); ++i) {
    REKINDLE_TRY(made->memory_.emplace_back(), place.device->allocate(layout.floats() * sizeof(float)));
  }
  REKINDLE_TRY(made->digest_, place.device->allocate(sizeof(Hash128)));
  for (const std::span<std::byte> arena : made->host_->memory())
    if (const Status locked = place.device->lock(arena); !locked) log_warning(locked.error().line());
  return made;
}

DeviceState::DeviceState(std::unique_ptr<HostState> host, UpdatePlan plan, const UpdateOptions& options,
                         device::Place place)
    : host_(std::move(host)),
      plan_(std::move(plan)),
      average_decay_(options.average),
      place_(place),
      counters_(host_->counters().size()),
      header_(host_->layout().header_floats()),
      proposed_(host_->layout().tensors().size()) {
  const std::vector<TensorPlace>& tensors = layout().tensors();
  const bool proofs =
      std::ranges::any_of(tensors, [](const TensorPlace& place) { return !place.is_float(); });
  if (proofs) buffers_.resize(layout().floats() - tensors[layout().parameters()].offset);
}

DeviceState::~DeviceState() {
  static_cast<void>(synchronize());  // copies to memory that goes now
  for (const std::span<std::byte> arena : host_->memory()) place_.device->unlock(arena);
}

Status DeviceState::download() {
  std::ranges::copy(counters_, host_->counters().begin());
  return copy_all(true);
}

Status DeviceState::upload() {
  std::ranges::copy(host_->counters(), counters_.begin());
  return copy_all(false);
}

// The headers of the arenas have no values but the counters.
Status DeviceState::copy_all(bool to_host) {
  const std::size_t header = layout().header_floats() * sizeof(float);
  std::size_t i = 0;
  for (const std::span<std::byte> arena : host_->memory()) {
    std::byte *const host = arena.data() + header, *const device =
                                                       static_cast<std::byte*>(memory_[i++].data()) + header;
    copy(to_host ? host : device, to_host ? device : host, arena.size() - header);
  }
  return synchronize();
}

Result<Hash128> DeviceState::digest() {
  struct {
    std::array<std::uint64_t, 2> sums;
    Hash128 counters;
  } parts{{}, hash128(std::as_bytes(std::span(counters_)))};
  auto* const sums = static_cast<std::uint64_t*>(digest_.data());
  copy(sums, parts.sums.data(), sizeof parts.sums);
  const std::vector<std::span<std::byte>> arenas = host_->memory();
  const auto header = static_cast<std::ptrdiff_t>(layout().header_floats() * sizeof(float));
  std::uint64_t words = 0;
  for (const auto& tensor : host_->state()) {
    const std::byte* const begin = tensor.bytes.data();
    // Padding has any values, so each tensor is looked at by itself.
    for (std::size_t i = 0; i < arenas.size(); ++i) {
      const std::ptrdiff_t at = begin - arenas[i].data();
      if (at < header || at >= static_cast<std::ptrdiff_t>(arenas[i].size())) continue;
      const device::DigestInto kernel{sums, static_cast<const std::byte*>(memory_[i].data()) + at,
                                      tensor.bytes.size(), words};
      place_.device->run(*place_.stream, kernel);
      words += kernel.words();
    }
  }
  copy(parts.sums.data(), sums, sizeof parts.sums);
  REKINDLE_CHECK(synchronize());
  return hash128(std::as_bytes(std::span(&parts, 1)));
}

void DeviceState::update(std::size_t first, std::span<const float> sum, const optim::Step& step) {
  if (failure_) failure_ = take_header(first, sum, step);
  if (!failure_) return;
  update_parameters(first, sum);
  update_buffers(first, sum);
  fetch_proofs(first, sum);
  if (average_decay_ > 0) update_average(first, sum.size());
}

Status DeviceState::take_header(std::size_t first, std::span<const float> sum, const optim::Step& step) {
  if (first >= header_.size()) return {};
  const std::span<float> part =
      std::span(header_).subspan(first, std::min(sum.size(), header_.size() - first));
  copy(part.data(), sum.data(), part.size_bytes());
  REKINDLE_CHECK(synchronize());
  plan_.take_header(first, part, step, counters_);
  return {};
}

void DeviceState::update_parameters(std::size_t first, std::span<const float> sum) {
  for (const UpdateRun& run : plan_.runs()) {
    const std::size_t from = std::max(run.first, first), to = std::min(run.end, first + sum.size());
    if (from >= to) continue;
    device::Update update{.formula = run.optimizer->as_formula()->formula(run.step)};
    update.parameters = values().data() + from;
    for (std::size_t s = 0; s < plan_.optimizer_states().size(); ++s)
      update.states[s] = memory_[1 + s].floats().data() + from;
    update.sum = sum.data() + (from - first);
    update.count = to - from;
    place_.device->run(*place_.stream, update);
  }
}

// Few launches: a model may have a hundred buffers, and the GPU waits for the host here.
void DeviceState::update_buffers(std::size_t sum_first, std::span<const float> sum) {
  device::Pieces pieces;
  pieces.factor = plan_.mean();
  for (std::size_t i = layout().parameters(); i < layout().tensors().size(); ++i) {
    const TensorPlace& place = layout().tensors()[i];
    const std::size_t first = std::max(place.offset, sum_first),
                      end = std::min(place.end(), sum_first + sum.size());
    if (first >= end || !plan_.changed(i)) continue;
    float* const to = values().data() + first;
    const float* const from = sum.data() + (first - sum_first);
    if (!place.is_float()) {
      if (first == place.offset) take_proposed(i, pieces);  // otherwise written with the proof
    } else if (end - first >= kLongPiece) {
      place_.device->run(*place_.stream, device::Scale{to, from, plan_.mean(), end - first});
    } else {
      pieces.piece[pieces.pieces++] = {to, from, static_cast<std::uint32_t>(end - first)};
    }
    run_pieces(pieces, false);
  }
  run_pieces(pieces, true);
}

void DeviceState::take_proposed(std::size_t tensor, device::Pieces& pieces) {
  const TensorPlace& place = layout().tensors()[tensor];
  const std::span<const std::byte> value = proposed_[tensor];
  to_prove_.push_back(tensor);
  if (value.size() != place.spec.bytes()) return;
  float* const to = values().data() + place.offset;
  const bool words = reinterpret_cast<std::uintptr_t>(value.data()) % sizeof(float) == 0 &&
                     value.size() % sizeof(float) == 0 && value.size() / sizeof(float) < kLongPiece;
  if (words)
    pieces.piece[pieces.pieces++] = {to, reinterpret_cast<const float*>(value.data()),
                                     static_cast<std::uint32_t>(value.size() / sizeof(float)), false};
  else
    copy(to, value.data(), value.size());
}

void DeviceState::run_pieces(device::Pieces& pieces, bool all) {
  if (pieces.pieces == 0 || (!all && pieces.pieces < device::kMostPieces)) return;
  place_.device->run(*place_.stream, pieces);
  pieces.pieces = 0;
}

void DeviceState::update_average(std::size_t sum_first, std::size_t count) {
  const std::size_t first = std::max(layout().header_floats(), sum_first),
                    end = std::min(layout().floats(), sum_first + count);
  if (first >= end) return;
  float *const to = average().data() + first, *const from = values().data() + first;
  if (plan_.is_first())
    copy(to, from, (end - first) * sizeof(float));
  else
    place_.device->run(*place_.stream,
                       device::MoveTowards{to, from, static_cast<float>(1 - average_decay_), end - first});
}

// One copy for all proofs of the piece: they are few and small, and lie among the other buffers.
void DeviceState::fetch_proofs(std::size_t first, std::span<const float> sum) {
  if (buffers_.empty()) return;
  const std::size_t begin = layout().floats() - buffers_.size(), from = std::max(begin, first),
                    to = std::min(layout().floats(), first + sum.size());
  if (from < to)
    copy(buffers_.data() + (from - begin), sum.data() + (from - first), (to - from) * sizeof(float));
}

Status DeviceState::check_proofs() {
  const std::vector<std::size_t> to_prove = std::exchange(to_prove_, {});
  if (to_prove.empty()) return {};
  REKINDLE_CHECK(synchronize());
  for (const std::size_t tensor : to_prove) {
    const TensorPlace& place = layout().tensors()[tensor];
    const auto sum =
        std::span<const float>(buffers_).subspan(place.offset - (layout().floats() - buffers_.size()));
    if (proposed_[tensor].size() != place.spec.bytes() ||
        !all_agree(sum.first<kProofFloats>(), static_cast<std::size_t>(plan_.micro_batches())))
      return forward_error(disagreement(place));
  }
  return {};
}

Status DeviceState::finish_update() {
  if (failure_) failure_ = check_proofs();
  for (auto& proposed : proposed_) proposed = {};
  return std::exchange(failure_, Status());
}

}  // namespace rekindle::trainer
