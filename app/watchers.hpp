// The processes that watch a run from beside it: its page, its metrics, and the commands of --on-event. They
// read the run directory; the run does not wait for them, and goes on without them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

struct WatcherOptions {
  std::optional<std::uint64_t> status_port;  // 0: a free one
  std::string status_bind = "127.0.0.1";     // an address of this machine
  std::vector<std::string> allowed_hosts;    // host names of proxies
  std::string status_html;                   // a file; empty: none
  std::string metrics_bind;                  // "ADDRESS:PORT"; empty: none
  std::string metrics_token_file;            // empty: the page's token
  std::string metrics_targets;               // a folder for Prometheus's file_sd_configs; empty: none
  bool metrics_open = false;
  bool tensorboard = false;  // its files, in the run directory
  std::string on_event;      // a shell command; empty: none
  bool wants_board() const {
    return status_port || tensorboard || !status_html.empty() || !metrics_bind.empty();
  }
};

// "127.0.0.1:9300" (ExitCode::kUsage).
struct AddressAndPort {
  std::string address;
  std::uint16_t port = 0;
};
Result<AddressAndPort> parse_bind(const std::string& option, const std::string& text);

// What `rekindle-board serve` gets.
Result<std::vector<std::string>> board_arguments(const WatcherOptions& options);

class Watchers {
 public:
  // Starts the command of --on-event, which gets the events from now on. One that cannot be started is told,
  // and the run goes on.
  Watchers(const run::Layout& layout, const WatcherOptions& options);
  // Starts the others, when this process's attempt holds the run: a start that is refused must not take the
  // place of the live run's own page.
  void begin(const run::Layout& layout, const WatcherOptions& options);
  // Ends them. The command of --on-event gets the last events; after ten seconds it is ended.
  ~Watchers();
  Watchers(const Watchers&) = delete;
  Watchers& operator=(const Watchers&) = delete;

 private:
  void start(const std::string& program, const std::vector<std::string>& arguments);

  std::vector<Child> children_;
};

}  // namespace rekindle::app
