// Any bytes as a message of each kind: an error, or a message that survives the trip.
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/wire.hpp"
#include "require.hpp"

namespace {

template <class Message>
void read(std::string_view text) {
  using namespace rekindle;
  const auto message = protocol::decode<Message>(text);
  if (!message) return;
  const std::string written = protocol::encode(*message);
  const auto again = protocol::decode<Message>(written);
  require(again.has_value(), "it is refused when it is written again");
  require(protocol::encode(*again) == written, "it changes when it is written again");
}

// A worker must read as much of a message as the process that uses it, and pass it on unchanged.
void pass_on(std::string_view text) {
  using namespace rekindle;
  const auto report = protocol::read_report(std::string(text));
  require(!report || report->text == text, "a report is passed on changed");
  require(report || !protocol::decode<protocol::FromTrainer>(text), "a worker refuses a good report");
  const auto order = protocol::read_order(std::string(text));
  require(order || !protocol::decode<protocol::ToTrainer>(text), "a worker refuses a good order");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rekindle::protocol;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read<FromTrainer>(text);
  read<ToTrainer>(text);
  read<ToSupervisor>(text);
  read<ToCoordinator>(text);
  read<Registration>(text);
  pass_on(text);
  return 0;
}
