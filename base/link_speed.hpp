// How fast the machine's networks are, as far as the kernel says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/network.hpp"

namespace rekindle {

// Megabits a second; 0: the kernel does not say. Sources: Documentation/ABI/testing/sysfs-class-net (speed)
// and sysfs-class-infiniband (rate, "200 Gb/sec (4X HDR)"). `sys`: where /sys is.
std::uint64_t megabits_of(const std::string& interface, const std::filesystem::path& sys = "/sys");

// A line if another interface is at least four times as fast as the one with `address`; "" if not.
std::string slow_link(const std::vector<Interface>& there, const std::string& address,
                      const std::filesystem::path& sys = "/sys");

}  // namespace rekindle
