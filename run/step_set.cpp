#include "run/step_set.hpp"

#include <algorithm>
#include <iterator>

#include "base/text.hpp"

namespace rekindle::run {

void StepSet::insert(std::uint64_t first, std::uint64_t last) {
  if (last < first) return;
  auto next = ranges_.upper_bound(first);
  if (next != ranges_.begin() && std::prev(next)->second + 1 >= first) {
    --next;
    first = next->first;
    last = std::max(last, next->second);
    next = ranges_.erase(next);
  }
  while (next != ranges_.end() && next->first <= last + 1) {
    last = std::max(last, next->second);
    next = ranges_.erase(next);
  }
  ranges_[first] = last;
}

void StepSet::erase(std::uint64_t step) {
  const auto next = ranges_.upper_bound(step);
  if (next == ranges_.begin()) return;
  const auto [first, last] = *std::prev(next);
  if (step > last) return;
  ranges_.erase(std::prev(next));
  if (first < step) ranges_[first] = step - 1;
  if (step < last) ranges_[step + 1] = last;
}

void StepSet::erase_after(std::uint64_t step) {
  ranges_.erase(ranges_.upper_bound(step), ranges_.end());
  if (!ranges_.empty()) ranges_.rbegin()->second = std::min(ranges_.rbegin()->second, step);
}

std::string StepSet::text() const {
  constexpr std::size_t kShown = 5;
  const bool one = ranges_.size() == 1 && ranges_.begin()->first == ranges_.begin()->second;
  std::string text = one ? "step " : "steps ";
  std::size_t shown = 0;
  for (const auto& [first, last] : ranges_) {
    if (shown == kShown) return str(text, " and ", ranges_.size() - kShown, " more ranges");
    text += str(shown++ == 0 ? "" : ", ", first);
    if (last > first) text += str(" to ", last);
  }
  return text;
}

}  // namespace rekindle::run
