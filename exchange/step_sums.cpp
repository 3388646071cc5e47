#include "exchange/exchange.hpp"

namespace rekindle::exchange {

StepSums& StepSums::operator+=(const StepSums& other) {
  flags |= other.flags;
  not_finite |= other.not_finite;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i].sum += other.sums[i].sum;
    sums[i].count += other.sums[i].count;
  }
  return *this;
}

}  // namespace rekindle::exchange
