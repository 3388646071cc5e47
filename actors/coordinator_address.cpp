#include "actors/coordinator_address.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "actors/key_pair.hpp"
#include "actors/system.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle::actors {
namespace {

Result<std::uint16_t> listen(const CoordinatorActor& actor, const std::string& address, PortRange ports) {
  for (int port = ports.first;; ++port) {
    const auto listening =
        caf::openssl::publish(actor, static_cast<std::uint16_t>(port), address.c_str(), ports.first != 0);
    if (listening) return *listening;
    if (port >= ports.last)
      return fail(ExitCode::kConfig,
                  str("the coordinator cannot listen on ", address, ": ", caf::to_string(listening.error())),
                  ports.last == 0 ? "" : "is a port of --port-range free?");
  }
}

}  // namespace

Result<Interface> publish(const CoordinatorOptions& options, std::uint64_t term,
                          const CoordinatorActor& actor) {
  REKINDLE_TRY(const PortRange ports, parse_port_range(options.job.port_range));
  REKINDLE_TRY(Interface chosen, choose_interface(interfaces(), options.job.interface));
  REKINDLE_TRY(const std::uint16_t port, listen(actor, chosen.address, ports));
  const nlohmann::json where = {{"term", term},
                                {"host", chosen.address},
                                {"port", port},
                                {"certificate", KeyPair::current().fingerprint()}};
  REKINDLE_CHECK(replace_file(options.layout.coordinator(), where.dump() + "\n"));
  log_info(str("term ", term, " on ", chosen.address, ":", port));
  return chosen;
}

bool has_another_address(const Interface& chosen, const std::string& wanted) {
  if (wanted.empty()) return false;
  const std::vector<Interface> there = interfaces();
  if (std::ranges::find(there, chosen.address, &Interface::address) != there.end()) return false;
  const auto next = choose_interface(there, wanted);
  return next && next->name == chosen.name;
}

}  // namespace rekindle::actors
