// Any bytes as what a peer sends during a call of the exchange. Without integrity: an error, or a call that
// is done. With integrity: an error, for nobody can guess a tag. And any bytes as a handshake.
#include <sys/socket.h>

#include <cstdint>
#include <string_view>

#include "exchange/exchange.hpp"
#include "exchange/failure.hpp"
#include "exchange/handshake.hpp"
#include "exchange/layout.hpp"
#include "exchange/mesh.hpp"
#include "exchange/transfers.hpp"
#include "require.hpp"

namespace {

using namespace rekindle;
using namespace rekindle::exchange;

constexpr std::size_t kFloats = 100;
const FrameKeys kKeys{{{std::byte{1}}, {}}, {{std::byte{2}}, {}}};

// Rank 0 of two makes a call; rank 1 sends `bytes` and hangs up.
Status run(Transfer& transfer, std::string_view bytes, bool integrity) {
  int fds[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0, "no sockets");
  const Fd peer(fds[1]);
  std::vector<Connection> connections(2);
  connections[1].fd = Fd(fds[0]);
  if (integrity) connections[1].keys = kKeys;
  if (!bytes.empty()) (void)send_some(peer.get(), std::as_bytes(std::span(bytes)));
  ::shutdown(peer.get(), SHUT_WR);
  WaitingFor waiting;
  Mesh mesh(
      std::move(connections), -1, [] { return false; }, waiting);
  return mesh.run(transfer);
}

Status call(char which, std::string_view bytes, bool integrity) {
  std::vector<float> floats(kFloats, 1.0F);
  Plan plan;
  plan.leaves = 4;
  plan.members.resize(2);
  if (which % 3 == 0) {
    HeaderTransfer transfer(1, {}, 0, 2);
    return run(transfer, bytes, integrity);
  }
  if (which % 3 == 1) {
    const Layout layout = make_layout(plan.leaves, 2);
    PartWindow window(layout, 0);
    ReduceTransfer transfer(1, {}, plan, layout, {std::span(floats)}, window);
    return run(transfer, bytes, integrity);
  }
  const std::vector<std::vector<std::span<std::byte>>> pieces{{},
                                                              {std::as_writable_bytes(std::span(floats))}};
  BytesTransfer transfer(1, 0, pieces, {true, true});
  return run(transfer, bytes, integrity);
}

void shake(std::string_view bytes) {
  const Membership me{1, 1, 0, 2, "the secret", true};
  Handshake shake = Handshake::accept(me, std::string(32, 'n'));
  while (shake.wants() <= bytes.size()) {
    const std::size_t frame = shake.wants();
    const auto answer = shake.take(bytes.substr(0, frame));
    require(!shake.done(), "a stranger is a member");
    if (!answer) return;
    bytes.remove_prefix(frame);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const char which = text[0];
  const std::string_view bytes = text.substr(1);
  shake(bytes);
  (void)call(which, bytes, false);
  const Status status = call(which, bytes, true);
  require(!status && status.error().rank == 1, "a tag was guessed");
  return 0;
}
