// The only place that reads clocks. Callers pass time into protocol/.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace rekindle {

// Since boot, counting suspends (CLOCK_BOOTTIME).
std::chrono::milliseconds boot_time();
std::string utc_now();     // "2031-02-03T04:05:06Z"
std::string utc_now_ms();  // "2031-02-03T04:05:06.789Z"
// Milliseconds since 1970 of "2031-02-03T04:05:06.789Z", whose fraction may be missing, and back. nullopt: no
// such time.
std::optional<std::int64_t> parse_utc(const std::string& utc);
std::string utc_text(std::int64_t milliseconds);
// The age of a UTC time; not below zero, even if the clocks of two hosts differ. nullopt: not a valid time.
std::optional<std::chrono::seconds> age_of(const std::string& utc);
std::string host_name();
std::string boot_id();  // changes at every boot of this host
// Processes of one namespace see each other in /proc; of two containers they need not. Source:
// pid_namespaces(7).
std::string pid_namespace();
// Processes of one namespace have one loopback address; two containers of one host may have two. Source:
// network_namespaces(7).
std::string network_namespace();
// A process may open the files of another one through /proc only in its own user namespace. Source:
// user_namespaces(7).
std::string user_namespace();

}  // namespace rekindle
