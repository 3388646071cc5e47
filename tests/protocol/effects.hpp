// Sorts the effects of a state machine.
#pragma once

#include <variant>
#include <vector>

namespace rekindle::protocol {

// The effects of one type, in order.
template <class E, class... Kinds>
std::vector<E> of(const std::vector<std::variant<Kinds...>>& effects) {
  std::vector<E> found;
  for (const auto& effect : effects) {
    if (const auto* e = std::get_if<E>(&effect)) found.push_back(*e);
  }
  return found;
}

}  // namespace rekindle::protocol
