// What is said about connections that are turned away at a port: one line a source, a reason and ten seconds,
// however often somebody knocks.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace rekindle {

class StrangerLog {
 public:
  explicit StrangerLog(std::string port) : port_(std::move(port)) {}

  // The line to log; nothing if that was said a short while ago.
  std::optional<std::string> line(std::string from, const std::string& why, std::chrono::milliseconds now);
  // Logs it.
  void turned_away(const std::string& from, const std::string& why);

 private:
  struct Said {
    std::chrono::milliseconds at;
    std::uint64_t silent = 0;  // times since then
  };
  const std::string port_;
  std::map<std::pair<std::string, std::string>, Said> said_;
};

}  // namespace rekindle
