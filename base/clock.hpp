// The only place that reads clocks. Callers pass time into protocol/.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace rekindle {

// Since boot, counting suspends (CLOCK_BOOTTIME).
std::chrono::milliseconds boot_time();
std::string utc_now();  // "2031-02-03T04:05:06Z"
// The age of a UTC time; not below zero, even if the clocks of two hosts differ. nullopt: not a valid time.
std::optional<std::chrono::seconds> age_of(const std::string& utc);
std::string host_name();
std::string boot_id();  // changes at every boot of this host
// Processes of one namespace see each other in /proc; of two containers they need not. Source:
// pid_namespaces(7).
std::string pid_namespace();

}  // namespace rekindle
