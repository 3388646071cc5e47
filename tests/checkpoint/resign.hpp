// Gives a tampered manifest a correct checksum, so that the checks after the checksum must refuse it.
#pragma once

#include <string>

#include "base/hash.hpp"

namespace rekindle::checkpoint {

inline std::string resigned(const std::string& text) {
  const std::string body = text.substr(0, text.size() - 51);
  return body + "  \"checksum\": \"" + hash128(std::as_bytes(std::span(body))).hex() + "\"\n}\n";
}

}  // namespace rekindle::checkpoint
