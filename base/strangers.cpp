#include "base/strangers.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {
constexpr std::chrono::milliseconds kQuiet{10'000};
constexpr std::size_t kRemembered = 256;  // sources and reasons; sources beyond the limit share one line
}  // namespace

std::optional<std::string> StrangerLog::line(std::string from, const std::string& why,
                                             std::chrono::milliseconds now) {
  if (said_.size() >= kRemembered && !said_.contains({from, why})) {
    std::erase_if(said_, [&](const auto& entry) { return now - entry.second.at >= kQuiet; });
    if (said_.size() >= kRemembered) from = "many addresses";
  }
  const auto [entry, is_new] = said_.try_emplace({from, why}, Said{now});
  Said& said = entry->second;
  if (!is_new && now - said.at < kQuiet) {
    ++said.silent;
    return std::nullopt;
  }
  const std::string more = said.silent == 0 ? "" : str(" (", said.silent, " more times before)");
  said = {now};
  return str("a connection from ", from, " to ", port_, " was turned away: ", why, more);
}

void StrangerLog::turned_away(const std::string& from, const std::string& why) {
  if (const auto text = line(from, why, boot_time())) log_warning(*text);
}

}  // namespace rekindle
