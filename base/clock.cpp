#include "base/clock.hpp"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>

namespace rekindle {

std::chrono::milliseconds boot_time() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::milliseconds(now.tv_sec * 1000LL + now.tv_nsec / 1000000);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::optional<std::chrono::seconds> age_of(const std::string& utc) {
  std::tm parts{};
  const char* end = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return std::chrono::seconds(std::max<std::time_t>(0, std::time(nullptr) - ::timegm(&parts)));
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

std::string pid_namespace() {
  char name[64] = {};
  if (::readlink("/proc/self/ns/pid", name, sizeof name - 1) < 0) return "";
  return name;
}

}  // namespace rekindle
