// Gives a tampered manifest a right checksum, so that the checks behind the checksum are what must refuse it.
#pragma once

#include <string>

#include "base/hash.hpp"

namespace rekindle::checkpoint {

inline std::string resigned(const std::string& text) {
  const std::string body = text.substr(0, text.size() - 51);
  return body + "  \"checksum\": \"" + hash128(std::as_bytes(std::span(body))).hex() + "\"\n}\n";
}

}  // namespace rekindle::checkpoint
