// Threads that read samples. Internal to the module.
#pragma once

#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "base/text.hpp"

namespace rekindle::data {

// Adds threads that run `act` until there are `wanted`. Error: no more of them can be made now. Those that
// are there go on.
template <class Act>
Status add_threads(std::vector<std::jthread>& threads, int wanted, const std::string& samples,
                   const std::string& fewer, const Act& act) {
  try {
    while (threads.size() < static_cast<std::size_t>(wanted)) threads.emplace_back(act);
    return {};
  } catch (const std::exception& error) {  // of the system, or of its memory
    return fail(str("thread ", threads.size() + 1, " of ", wanted, " to read the ", samples,
                    " with cannot be made: ", error.what()),
                str("use ", fewer, ", or allow the job more memory and processes (ulimit -a)"));
  }
}

}  // namespace rekindle::data
