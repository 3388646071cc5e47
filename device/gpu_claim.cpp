#include "device/gpu_claim.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/text.hpp"

namespace rekindle::device {
namespace {

// Claims of one GPU: the first trainer on it has place 0.
constexpr int kMostPlaces = 64;

// A socket's name that is no file is free again as soon as the process is dead, and needs no folder that all
// users may write to. nullopt: another process has the name.
std::optional<Fd> claim(const std::string& identity, int place) {
  const std::string name = str("rekindle-gpu/", identity, "/", place);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::copy_n(name.begin(), length, address.sun_path + 1);  // the name begins with a zero byte
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  const int bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes);
  if (bound != 0 && errno == EADDRINUSE) return std::nullopt;
  return socket;  // without a claim, if there can be none
}

}  // namespace

ClaimedGpu claim_gpu(std::span<const std::string> identities, int number) {
  const int count = static_cast<int>(identities.size());
  for (int place = 0; place < kMostPlaces; ++place) {
    for (int i = 0; i < count; ++i) {
      const int index = (number % count + i) % count;
      if (auto socket = claim(identities[static_cast<std::size_t>(index)], place))
        return {index, std::move(*socket)};
    }
  }
  return {number % count, Fd()};
}

}  // namespace rekindle::device
