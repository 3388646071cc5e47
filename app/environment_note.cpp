#include "app/environment_note.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/printable.hpp"

namespace rekindle::app {
namespace {

constexpr std::string_view kMask = "***";

bool is_secret(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  constexpr std::string_view kWords[] = {"KEY",    "TOKEN", "SECRET",  "PASS",      "CREDENTIAL", "AUTH",
                                         "COOKIE", "JWT",   "SESSION", "SIGNATURE", "WEBHOOK"};
  if (name.ends_with("_PWD")) return true;  // MYSQL_PWD; not PWD and OLDPWD, which are folders
  return std::ranges::any_of(kWords, [&name](std::string_view word) { return name.find(word) != name.npos; });
}

// "http://user:password@host" -> "http://***@host"
std::string without_passwords(std::string value) {
  constexpr std::string_view kEndOfScheme = "://";
  for (auto at = value.find(kEndOfScheme); at != value.npos; at = value.find(kEndOfScheme, at)) {
    at += kEndOfScheme.size();
    const auto end = std::min(value.find_first_of("/ ,;", at), value.size());
    const auto user_end = value.rfind('@', end);
    if (user_end != value.npos && user_end >= at && user_end < end) value.replace(at, user_end - at, kMask);
  }
  return value;
}

}  // namespace

std::string environment_note(std::vector<std::string> environment) {
  std::ranges::sort(environment);
  std::string note;
  for (const std::string& variable : environment) {
    const auto end = std::min(variable.find('='), variable.size());
    const std::string name = variable.substr(0, end),
                      value = end < variable.size() ? variable.substr(end + 1) : "";
    note += printable(name) + "=" +
            (is_secret(name) && !value.empty() ? std::string(kMask) : printable(without_passwords(value))) +
            "\n";
  }
  return note;
}

}  // namespace rekindle::app
