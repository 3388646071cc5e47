// Samples that need more memory than there is. Internal to the module.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/lines.hpp"
#include "base/result.hpp"
#include "base/text.hpp"

namespace rekindle::data {

// What `act` returns. `smaller`: what needs less memory. In a thread of its own, an exception would end the
// process without a message.
template <class Act>
Status with_enough_memory(const std::string& samples, const std::string& smaller, const Act& act) {
  const auto failed = [&samples](const std::string& what) {  // a data set of one's own
    return forward_error(Error{ExitCode::kConfig,
                               str("the data set failed to read the ", samples, ": ", what),
                               "look at its read()", ErrorKind::kDamage});
  };
  try {
    return act();
  } catch (const std::bad_alloc&) {
    return fail("there is not enough memory to read the " + samples,
                "give the job more memory, or use " + smaller);
  } catch (const std::exception& error) {
    return failed(line_of_exception(error.what()));
  } catch (...) {
    return failed("an exception of an unknown type");
  }
}

}  // namespace rekindle::data
