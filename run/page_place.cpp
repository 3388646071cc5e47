#include "run/page_place.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/json_reader.hpp"
#include "base/process.hpp"

namespace rekindle::run {

std::string own_page_place(const std::string& address, std::uint16_t port) {
  const nlohmann::json place = {
      {"host", host_name()}, {"boot_id", boot_id()}, {"pid_namespace", pid_namespace()},
      {"pid", ::getpid()},   {"address", address},   {"port", port}};
  return place.dump() + "\n";
}

Result<PagePlace> read_page_place(std::string_view text, const std::string& source) {
  constexpr JsonField kFields[] = {{"host", JsonType::kText},          {"boot_id", JsonType::kText},
                                   {"pid_namespace", JsonType::kText}, {"pid", JsonType::kInt},
                                   {"address", JsonType::kText},       {"port", JsonType::kWhole}};
  REKINDLE_TRY(const nlohmann::json json, parse_object(text, kFields, source));
  PagePlace place;
  place.server.host = json.value("host", "");
  // Files of earlier versions have neither boot nor namespace, and were compared by the host's name alone.
  place.server.boot_id = json.value("boot_id", boot_id());
  place.server.pid_namespace = json.value("pid_namespace", pid_namespace());
  place.server.pid = json.value("pid", std::int64_t{0});
  place.address = json.value("address", "");
  place.port = json.value("port", std::uint64_t{0});
  return place;
}

bool server_gone(const PagePlace& place) { return visible(place.server) && !is_running(place.server.pid); }

}  // namespace rekindle::run
