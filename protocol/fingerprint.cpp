#include "protocol/fingerprint.hpp"

#include <nlohmann/json.hpp>

namespace rekindle::protocol {
namespace {

using nlohmann::json;

json parsed(const std::string& fingerprint) { return json::parse(fingerprint, nullptr, false); }

}  // namespace

bool same_but_first_gradient(const std::string& a, const std::string& b) {
  if (a == b) return true;
  json one = parsed(a), other = parsed(b);
  if (!one.is_object() || !other.is_object()) return false;
  one.erase(kFirstGradient);
  other.erase(kFirstGradient);
  return one == other;
}

bool other_first_gradient(const std::string& a, const std::string& b) {
  const json one = parsed(a), other = parsed(b);
  return one.is_object() && other.is_object() && one.contains(kFirstGradient) &&
         other.contains(kFirstGradient) && one.at(kFirstGradient) != other.at(kFirstGradient);
}

}  // namespace rekindle::protocol
