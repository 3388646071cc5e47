// Log lines about unauthenticated peers whose connections a port refuses: at most one line in ten seconds for
// each source and reason.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace rekindle {

class RefusedPeerLog {
 public:
  explicit RefusedPeerLog(std::string port) : port_(std::move(port)) {}

  // The line to log; nullopt if the same line was logged within the last ten seconds.
  std::optional<std::string> line(std::string from, const std::string& why, std::chrono::milliseconds now);
  // Logs that line, if there is one.
  void turned_away(const std::string& from, const std::string& why);

 private:
  struct Logged {
    std::chrono::milliseconds at;
    std::uint64_t silent = 0;  // refused connections since then
  };
  const std::string port_;
  std::map<std::pair<std::string, std::string>, Logged> logged_;
};

}  // namespace rekindle
