// Functions whose last bit does not depend on the C library of the machine: additions and multiplications
// alone.
#pragma once

#include <cstdint>

namespace rekindle::optim {

// base^n, by squaring.
inline double power(double base, std::uint64_t n) {
  double result = 1;
  for (; n > 0; n /= 2, base *= base) {
    if (n % 2 == 1) result *= base;
  }
  return result;
}

// cos(pi * x) for 0 <= x <= 1, with an error below 1e-15: the Taylor series of the sine around x = 1/2, as
// cos(pi * x) = sin(pi * (1/2 - x)).
inline double cos_pi(double x) {
  constexpr double kPi = 3.14159265358979323846;
  const double y = kPi * (0.5 - x), squared = y * y;
  double term = y, sum = y;
  for (int n = 2; n <= 26; n += 2) {
    term *= -squared / (n * (n + 1));
    sum += term;
  }
  return sum;
}

}  // namespace rekindle::optim
