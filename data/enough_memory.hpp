// Samples that need more memory than there is. Internal to the module.
#pragma once

#include <new>
#include <string>

#include "base/result.hpp"

namespace rekindle::data {

// What `act` returns. In a thread of its own, an exception would end the process without a message.
template <class Act>
Status with_enough_memory(const std::string& samples, const Act& act) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    return fail("there is not enough memory to read the " + samples,
                "give the job more memory, or use fewer --loader-threads");
  }
}

}  // namespace rekindle::data
