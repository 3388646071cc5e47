#include "base/bytes.hpp"

#include <array>
#include <iomanip>
#include <sstream>

namespace rekindle {

std::string format_bytes(std::uint64_t bytes) {
  std::ostringstream text;
  if (bytes < 1000) {
    text << bytes << (bytes == 1 ? " byte" : " bytes");
    return text.str();
  }
  constexpr std::array kUnits = {" kB", " MB", " GB", " TB", " PB", " EB"};
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 || unit < 2 ? 1 : 2;
  text << std::fixed << std::setprecision(decimals) << value << kUnits[unit];
  return text.str();
}

}  // namespace rekindle
