#include "trainer/gradient_memory.hpp"

#include <algorithm>
#include <cmath>

#include "base/planted.hpp"
#include "optim/clip.hpp"

namespace rekindle::trainer {
namespace {

// Calls `part(first, values)` for the parts of the pieces that are in `range`.
template <class Part>
void each_part(const std::vector<exchange::SumPiece>& pieces, FloatRange range, const Part& part) {
  for (const exchange::SumPiece& piece : pieces) {
    const std::size_t first = std::max(piece.first, range.first),
                      end = std::min(piece.first + piece.sum.size(), range.end);
    if (first < end) part(first, piece.sum.subspan(first - piece.first, end - first));
    if (planted(Bug::kNormOfOnePiece)) break;
  }
}

}  // namespace

void GradientMemory::add(std::span<float> to, std::span<const float> from) {
  if (place_)
    place_.device->run(*place_.stream, device::AddInto{to.data(), from.data(), to.size()});
  else
    exchange::add_into(to.data(), from.data(), to.size());
}

void GradientMemory::copy(std::span<float> to, std::span<const float> from) {
  if (place_)
    place_.device->copy(*place_.stream, to.data(), from.data(), from.size_bytes());
  else
    std::ranges::copy(from, to.begin());
}

Result<double> GradientMemory::norm(const std::vector<exchange::SumPiece>& pieces, FloatRange range) {
  if (!place_) {
    optim::SquaredNorm squares;
    each_part(pieces, range, [&](std::size_t, std::span<const float> values) { squares.add(values); });
    return std::sqrt(squares.value());
  }
  device::Device& device = *place_.device;
  constexpr std::size_t kFloats = device::kNormSums * sizeof(double) / sizeof(float);
  if (sums_.data() == nullptr) {
    REKINDLE_TRY(sums_, device.allocate(kFloats * sizeof(float)));
  }
  device.run(*place_.stream, device::Fill{sums_.floats().data(), 0, kFloats});
  auto* const sums = static_cast<double*>(sums_.data());
  each_part(pieces, range, [&](std::size_t first, std::span<const float> values) {
    device.run(*place_.stream, device::SquaresInto{sums, values.data(), first, values.size()});
  });
  std::vector<double> squares(device::kNormSums);
  device.copy(*place_.stream, squares.data(), sums, squares.size() * sizeof(double));
  REKINDLE_CHECK(device.synchronize(*place_.stream));
  double all = 0;
  for (const double each : squares) all += each;
  return std::sqrt(all);
}

Result<std::span<const float>> GradientMemory::on_host(std::span<const float> values) {
  if (!place_) return values;
  copy_.resize(values.size());
  place_.device->copy(*place_.stream, copy_.data(), values.data(), values.size_bytes());
  REKINDLE_CHECK(place_.device->synchronize(*place_.stream));
  return copy_;
}

}  // namespace rekindle::trainer
