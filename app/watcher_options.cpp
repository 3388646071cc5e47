#include <charconv>

#include "app/watchers.hpp"
#include "base/text.hpp"

namespace rekindle::app {

Result<AddressAndPort> parse_bind(const std::string& option, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  AddressAndPort made{.address = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon)};
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (made.address.starts_with('[') && made.address.ends_with(']'))
    made.address = made.address.substr(1, made.address.size() - 2);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), made.port);
  if (error != std::errc() || end != port.data() + port.size() || made.address.empty())
    return fail(ExitCode::kUsage, str(option, " '", text, "' is no address and port"),
                "as in 0.0.0.0:9300, or 9300");
  return made;
}

Result<std::vector<std::string>> board_arguments(const WatcherOptions& options) {
  std::vector<std::string> arguments;
  const auto add = [&arguments](const std::string& name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  };
  if (options.status_port) {
    add("--port", str(*options.status_port));
    add("--address", options.status_bind);
  }
  for (const std::string& host : options.allowed_hosts) add("--allow-host", host);
  add("--page-file", options.status_html);
  if (!options.metrics_bind.empty()) {
    REKINDLE_TRY(const AddressAndPort bind, parse_bind("--metrics-bind", options.metrics_bind));
    add("--metrics-address", bind.address);
    add("--metrics-port", str(bind.port));
  }
  add("--metrics-token-file", options.metrics_token_file);
  add("--metrics-targets", options.metrics_targets);
  if (options.tensorboard) arguments.emplace_back("--tensorboard");
  if (options.metrics_open) arguments.emplace_back("--metrics-open");
  return arguments;
}

}  // namespace rekindle::app
