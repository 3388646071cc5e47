#include "base/clock.hpp"

#include <unistd.h>

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
