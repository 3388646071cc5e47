#include "base/clock.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>

namespace rekindle {

std::chrono::milliseconds boot_time() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::milliseconds(now.tv_sec * 1000LL + now.tv_nsec / 1000000);
}

namespace {

std::string utc(std::time_t time) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

std::string utc_now() { return utc(std::time(nullptr)); }

std::string utc_now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return utc_text(now.tv_sec * std::int64_t{1000} + now.tv_nsec / 1000000);
}

std::string utc_text(std::int64_t milliseconds) {
  constexpr std::int64_t kSecond = 1000;
  std::string text = utc(milliseconds / kSecond);
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, ".%03dZ", static_cast<int>(milliseconds % kSecond));
  return text.replace(text.size() - 1, 1, fraction);
}

std::optional<std::int64_t> parse_utc(const std::string& utc) {
  std::tm parts{};
  const char* end = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr) return std::nullopt;
  int fraction = 0;
  if (*end == '.') {
    for (int scale = 100; scale > 0; scale /= 10) {
      const char digit = *++end;
      if (digit < '0' || digit > '9') return std::nullopt;
      fraction += scale * (digit - '0');
    }
    ++end;
  }
  if (*end != 'Z' || end[1] != '\0') return std::nullopt;
  const std::time_t seconds = ::timegm(&parts);
  if (seconds < 0) return std::nullopt;
  return seconds * std::int64_t{1000} + fraction;
}

std::optional<std::chrono::seconds> age_of(const std::string& utc) {
  const auto then = parse_utc(utc);
  if (!then) return std::nullopt;
  constexpr std::int64_t kSecond = 1000;
  return std::chrono::seconds(std::max<std::int64_t>(0, std::time(nullptr) - *then / kSecond));
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

namespace {
std::string link_at(const char* path) {
  char name[64] = {};
  return ::readlink(path, name, sizeof name - 1) < 0 ? "" : name;
}
}  // namespace

std::string pid_namespace() { return link_at("/proc/self/ns/pid"); }

std::string network_namespace() { return link_at("/proc/self/ns/net"); }

std::string user_namespace() { return link_at("/proc/self/ns/user"); }

}  // namespace rekindle
