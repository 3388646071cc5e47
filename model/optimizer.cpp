#include "model/optimizer.hpp"

#include <algorithm>
#include <cstdint>

#include "model/update.hpp"

namespace rekindle::model {
namespace {

// Floats that go to a GPU at a time: large enough for the bus, small beside the state.
constexpr std::size_t kStagingFloats = std::size_t{16} << 20;

}  // namespace

void Optimizer::update(const std::vector<at::Tensor>& arenas, std::size_t first, std::span<const float> sum,
                       float scale, double lr) const {
  if (arenas[0].is_cpu()) {
    std::vector<std::span<float>> pieces;
    pieces.reserve(arenas.size());
    for (const at::Tensor& arena : arenas) pieces.emplace_back(arena.data_ptr<float>() + first, sum.size());
    update_on_cpu(pieces, sum, scale, lr);
    return;
  }
  for (std::size_t done = 0; done < sum.size(); done += kStagingFloats) {
    const auto count = static_cast<std::int64_t>(std::min(kStagingFloats, sum.size() - done));
    std::vector<at::Tensor> pieces;
    pieces.reserve(arenas.size());
    for (const at::Tensor& arena : arenas)
      pieces.push_back(arena.narrow(0, static_cast<std::int64_t>(first + done), count));
    // from_blob wants a pointer to non-const; this only reads.
    const at::Tensor host = at::from_blob(const_cast<float*>(sum.data() + done), {count});  // NOLINT
    update_on_device(pieces, host.to(arenas[0].device()), scale, lr);
  }
}

void Optimizer::update_on_cpu(const std::vector<std::span<float>>& pieces, std::span<const float> sum,
                              float scale, double lr) const {
  const auto decay = static_cast<float>(config_.weight_decay);
  if (config_.optimizer == "adadelta") {
    const AdadeltaStep step{scale,
                            static_cast<float>(lr),
                            static_cast<float>(config_.rho),
                            static_cast<float>(1 - config_.rho),
                            static_cast<float>(config_.eps),
                            decay};
    adadelta_update(step, pieces[0], pieces[1], pieces[2], sum);
  } else {
    const SgdStep step{scale, static_cast<float>(lr), static_cast<float>(config_.momentum), decay};
    sgd_update(step, pieces[0], pieces.size() > 1 ? pieces[1] : std::span<float>(), sum);
  }
}

void Optimizer::update_on_device(const std::vector<at::Tensor>& pieces, const at::Tensor& g, float scale,
                                 double lr) const {
  const at::Tensor& p = pieces[0];
  g.mul_(scale);
  if (config_.weight_decay != 0) g.add_(p, config_.weight_decay);
  if (config_.optimizer == "adadelta") {
    const at::Tensor &s = pieces[1], &a = pieces[2];
    s.mul_(config_.rho).addcmul_(g, g, 1 - config_.rho);
    const at::Tensor d = a.add(config_.eps).sqrt_().div_(s.add(config_.eps).sqrt_()).mul_(g);
    a.mul_(config_.rho).addcmul_(d, d, 1 - config_.rho);
    p.sub_(d, lr);
  } else if (pieces.size() > 1) {
    const at::Tensor& m = pieces[1];
    m.mul_(config_.momentum).add_(g);
    p.sub_(m, lr);
  } else {
    p.sub_(g, lr);
  }
}

}  // namespace rekindle::model
