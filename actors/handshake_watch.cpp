#include "actors/handshake_watch.hpp"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/clock.hpp"
#include "base/network.hpp"

namespace rekindle::actors {
namespace {
constexpr std::chrono::milliseconds kLimit{10'000}, kSweepPeriod{1000};
// Then the oldest one goes. A worker whose turn that was tries again; so that few must, more than the nodes
// that come at once.
constexpr std::size_t kMostPending = 1024;

// Those that have not proved themselves leave enough descriptors to those that have.
std::size_t most_pending() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return kMostPending;
  return std::clamp<std::size_t>(files.rlim_cur / 4, 1, kMostPending);
}
}  // namespace

void HandshakeWatch::began(const void* connection, int fd) {
  sweep();  // while no worker is connected, nobody reads
  const std::scoped_lock lock(mutex_);
  const auto [entry, is_new] = pending_.try_emplace(connection);
  if (!is_new) return;
  entry->second = {fd, boot_time(), peer_address(fd), false};
  static const std::size_t most = most_pending();
  if (pending_.size() <= most) return;
  const auto oldest = std::min_element(pending_.begin(), pending_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second.told, a.second.since) < std::tie(b.second.told, b.second.since);
  });
  hang_up(oldest->second, "too many connections that have not proved themselves");
}

void HandshakeWatch::turn_away(Pending& pending, const std::string& why) {
  if (!std::exchange(pending.told, true)) strangers_.turned_away(pending.from, why);
}

// The network's thread sees the end of the connection and closes it. The descriptor cannot belong to anybody
// else by now: it is closed by the very thread that calls this, and SSL_free follows at once.
void HandshakeWatch::hang_up(Pending& pending, const std::string& why) {
  if (!pending.told) ::shutdown(pending.fd, SHUT_RDWR);
  turn_away(pending, why);
}

void HandshakeWatch::failed(const void* connection, const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = pending_.find(connection); found != pending_.end()) turn_away(found->second, why);
}

void HandshakeWatch::ended(const void* connection) {
  const std::scoped_lock lock(mutex_);
  pending_.erase(connection);
}

void HandshakeWatch::sweep() {
  const std::scoped_lock lock(mutex_);
  const Time now = boot_time();
  if (now - swept_ < kSweepPeriod) return;
  swept_ = now;
  for (auto& [connection, pending] : pending_) {
    if (now - pending.since >= kLimit) hang_up(pending, "it said nothing that proves it belongs to the run");
  }
}

}  // namespace rekindle::actors
