#include "protocol/fingerprint.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"

namespace rekindle::protocol {
namespace {

using nlohmann::json;

json parsed(const std::string& fingerprint) { return json::parse(fingerprint, nullptr, false); }

// The name of a key in messages.
std::string name_of(std::string key) {
  if (key == kFirstGradient) return "result of the first micro-batch";
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

std::string value_of(const json& fingerprint, const std::string& key) {
  if (!fingerprint.contains(key)) return "none";
  const json& value = fingerprint.at(key);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

std::string bits_of(const std::string& fingerprint) {
  json keys = parsed(fingerprint);
  // Without the handshake's result, only equal names prove equal bits.
  if (!keys.is_object() || !keys.contains(kFirstGradient) || keys.erase(kGpu) == 0) return fingerprint;
  return keys.dump();
}

std::string without_initial_values(const std::string& fingerprint) {
  json keys = parsed(fingerprint);
  return keys.is_object() && keys.erase(kInitialValues) > 0 ? keys.dump() : fingerprint;
}

bool same_but_first_gradient(const std::string& a, const std::string& b) {
  if (a == b) return true;
  json one = parsed(a), other = parsed(b);
  if (!one.is_object() || !other.is_object()) return false;
  for (json* const keys : {&one, &other}) {
    if (keys->erase(kFirstGradient) > 0) keys->erase(kGpu);
    keys->erase(kInitialValues);
  }
  return one == other;
}

bool other_first_gradient(const std::string& a, const std::string& b) {
  const json one = parsed(a), other = parsed(b);
  if (!one.is_object() || !other.is_object()) return false;
  return std::ranges::any_of(std::array{kFirstGradient, kInitialValues}, [&](const char* key) {
    return one.contains(key) && other.contains(key) && one.at(key) != other.at(key);
  });
}

std::string differences(const std::string& one, const std::string& other) {
  const json a = parsed(one), b = parsed(other);
  if (!a.is_object() || !b.is_object()) return str("fingerprint ", one, " (not ", other, ")");
  std::set<std::string> keys;
  for (const json* of : {&a, &b})
    for (const auto& [key, value] : of->items()) keys.insert(key);
  std::string all;
  for (const std::string& key : keys) {
    const std::string here = value_of(a, key), there = value_of(b, key);
    if (here != there) all += str(all.empty() ? "" : ", ", name_of(key), " ", here, " (not ", there, ")");
  }
  return all;
}

std::string writer_of(bool of_script, const std::string& then, const std::string& now) {
  return str("another script, build or machine",
             of_script && other_first_gradient(then, now) ? ", or with other data" : "");
}

}  // namespace rekindle::protocol
