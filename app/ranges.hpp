// Checks of numbers on the command line. CLI11's own checks print a double's range with all 309 digits.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>

#include "base/text.hpp"

namespace rekindle::app {

// least <= value <= most, both finite. `what` is "a number from 0 to 1".
template <class Number>
CLI::Validator within(Number least, Number most, const std::string& what) {
  return {[=](std::string& text) -> std::string {
            Number value{};
            const bool inside = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
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
inline CLI::Validator port() { return CLI::Range(0, 65535); }
inline CLI::Validator from_0() { return whole_number(0); }
inline CLI::Validator rate() { return number_from(0); }
inline CLI::Validator fraction() { return number(0, 1); }
inline CLI::Validator drop() { return number(0, 0.999); }
inline CLI::Validator pixels() { return whole_number(8, 4096); }
inline CLI::Validator seed() {
  return within(std::uint64_t{0}, std::uint64_t{INT64_MAX}, "a whole number of at most 9223372036854775807");
}

}  // namespace rekindle::app
