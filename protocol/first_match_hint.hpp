// A search for any element with a property, repeated on a long list whose elements change one at a time.
#pragma once

#include <cstddef>

namespace rekindle::protocol {

// Starts the search at the element that was found last, and continues only if that element has changed. If
// 4096 trainers report one after the other, a full search each time takes seconds. The hint only saves time:
// the result does not depend on it.
class FirstMatchHint {
 public:
  template <class Predicate>
  bool any(std::size_t count, const Predicate& holds) const {
    for (std::size_t tried = 0; tried < count; ++tried) {
      const std::size_t i = (hint_ + tried) % count;
      if (!holds(i)) continue;
      hint_ = i;
      return true;
    }
    return false;
  }

 private:
  mutable std::size_t hint_ = 0;
};

}  // namespace rekindle::protocol
