#include "view/series.hpp"

#include <algorithm>
#include <iterator>

namespace rekindle::view {
namespace {

constexpr unsigned kWidest = 63;  // one bucket has all steps up to INT64_MAX

void merge(Bucket& into, const Bucket& bucket) {
  if (into.count == 1 && bucket.count == 1 && into.last == bucket.last) {
    into = bucket;
    return;
  }
  const auto before = static_cast<double>(into.count), more = static_cast<double>(bucket.count);
  into.last = std::max(into.last, bucket.last);
  into.count += bucket.count;
  into.min = std::min(into.min, bucket.min);
  into.max = std::max(into.max, bucket.max);
  // In shares, because a sum of large values may be infinite. Rounding must not bring the mean of equal
  // values out of the range.
  const double mean = into.mean * (before / (before + more)) + bucket.mean * (more / (before + more));
  into.mean = std::clamp(mean, into.min, into.max);
}

}  // namespace

void Series::add(const Bucket& bucket) {
  while (true) {
    const std::uint64_t place = place_of(bucket.last);
    auto at = buckets_.end();
    if (!buckets_.empty() && place <= place_of(buckets_.back().last))  // mostly the last one
      at = std::ranges::lower_bound(buckets_, place, {},
                                    [&](const Bucket& each) { return place_of(each.last); });
    if (at != buckets_.end() && place_of(at->last) == place) return merge(*at, bucket);
    if (buckets_.size() < most_ || shift_ == kWidest) {
      buckets_.insert(at, bucket);
      return;
    }
    double_width();
  }
}

void Series::double_width() {
  ++shift_;
  std::size_t kept = 0;
  for (std::size_t i = 1; i < buckets_.size(); ++i) {
    if (place_of(buckets_[i].last) == place_of(buckets_[kept].last))
      merge(buckets_[kept], buckets_[i]);
    else
      buckets_[++kept] = buckets_[i];
  }
  if (!buckets_.empty()) buckets_.resize(kept + 1);
}

StepRange Series::steps_of(const Bucket& bucket) const {
  const std::uint64_t place = place_of(bucket.last);
  return {.from = place == 0 ? 0 : (place << shift_) + 1, .to = (place << shift_) + width()};
}

bool Series::exact() const {
  return std::ranges::all_of(buckets_, [](const Bucket& bucket) { return bucket.count == 1; });
}

}  // namespace rekindle::view
