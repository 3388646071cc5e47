#include "device/local_rank.hpp"

#include <charconv>
#include <string>

#include "base/process.hpp"

namespace rekindle::device {

int local_rank() {
  const std::string text = environment_variable("LOCAL_RANK");
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? number : 0;
}

std::string run_of_trainer() { return environment_variable("REKINDLE_RUN"); }

}  // namespace rekindle::device
