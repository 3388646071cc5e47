// "Is there any?", asked again and again of a long list whose elements change one at a time.
#pragma once

#include <cstddef>

namespace rekindle::protocol {

// Looks first at the element that was found the last time: the whole list is walked only when that one has
// changed. With 4096 trainers that report one after the other, walking it each time takes seconds. A hint,
// never a memory: the answer does not depend on it.
class Witness {
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
