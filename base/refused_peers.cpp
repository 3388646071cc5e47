#include "base/refused_peers.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {
constexpr std::chrono::milliseconds kQuiet{10'000};
constexpr std::size_t kRemembered = 256;  // sources and reasons; sources beyond the limit share one line
}  // namespace

std::optional<std::string> RefusedPeerLog::line(std::string from, const std::string& why,
                                                std::chrono::milliseconds now) {
  if (logged_.size() >= kRemembered && !logged_.contains({from, why})) {
    std::erase_if(logged_, [&](const auto& entry) { return now - entry.second.at >= kQuiet; });
    if (logged_.size() >= kRemembered) from = "many addresses";
  }
  const auto [entry, is_new] = logged_.try_emplace({from, why}, Logged{now});
  Logged& last = entry->second;
  if (!is_new && now - last.at < kQuiet) {
    ++last.silent;
    return std::nullopt;
  }
  const std::string more = last.silent == 0 ? "" : str(" (", last.silent, " more times before)");
  last = {now};
  return str("a connection from ", from, " to ", port_, " was turned away: ", why, more);
}

void RefusedPeerLog::turned_away(const std::string& from, const std::string& why) {
  if (const auto text = line(from, why, boot_time())) log_warning(*text);
}

}  // namespace rekindle
