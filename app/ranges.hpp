// Checks of numbers on the command line. CLI11's own checks print a double's range with all 309 digits.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "base/text.hpp"

namespace rekindle::app {

// Takes leading zeros away, with which CLI11 would read an octal number. False: not only digits.
inline bool make_decimal(std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return false;
  text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
  return true;
}

// least <= value <= most, both finite. `what` is "a number from 0 to 1". For Option::transform(), not
// check(): whole numbers are decimal.
template <class Number>
CLI::Validator within(Number least, Number most, const std::string& what) {
  return {[=](std::string& text) -> std::string {
            Number value{};
            std::string number = text;
            const bool inside = (!std::is_integral_v<Number> || make_decimal(number)) &&
                                CLI::detail::lexical_cast(number, value) && value >= least && value <= most;
            if (inside) text = number;
            return inside ? "" : str("'", text, "' is not ", what);
          },
          ""};
}

inline CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = std::uint64_t{1} << 40) {
  return within(least, most,
                most >> 40 != 0 ? str("a whole number of at least ", least)
                                : str("a whole number from ", least, " to ", most));
}

inline CLI::Validator number(double least, double most) {
  return within(least, most, str("a number from ", least, " to ", most));
}

inline CLI::Validator number_from(double least) {
  return within(least, std::numeric_limits<double>::max(), str("a number of at least ", least));
}

// The ranges of options.
inline CLI::Validator positive() { return whole_number(1); }
inline CLI::Validator int_number() {
  return within(std::uint64_t{1}, std::uint64_t{INT32_MAX}, "a whole number of at least 1, below 2^31");
}
inline CLI::Validator threads() { return whole_number(1, 1024); }
inline CLI::Validator threads_or_none() { return whole_number(0, 1024); }
inline CLI::Validator port() { return whole_number(0, 65535); }
inline CLI::Validator from_0() { return whole_number(0); }
inline CLI::Validator rate() { return number_from(0); }
inline CLI::Validator fraction() { return number(0, 1); }
inline CLI::Validator drop() { return number(0, 0.999); }
inline CLI::Validator pixels() { return whole_number(1, 4096); }
inline CLI::Validator seed() {
  return within(std::uint64_t{0}, std::uint64_t{INT64_MAX}, "a whole number of at most 9223372036854775807");
}

}  // namespace rekindle::app
