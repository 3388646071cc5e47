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
// Above this limit the oldest pending connection is closed. A worker whose connection was closed tries again.
// The limit is larger than the number of nodes that connect at once, so this is rare.
constexpr std::size_t kMostPending = 1024;

// Unauthenticated peers must leave enough descriptors for authenticated ones.
std::size_t most_pending() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return kMostPending;
  return std::clamp<std::size_t>(files.rlim_cur / 4, 1, kMostPending);
}
}  // namespace

void HandshakeWatch::began(const void* connection, int fd) {
  sweep();  // if no worker is connected, SSL_read is not called
  const std::scoped_lock lock(mutex_);
  const auto [entry, is_new] = pending_.try_emplace(connection);
  if (!is_new) return;
  entry->second = {fd, boot_time(), peer_address(fd), false};
  static const std::size_t most = most_pending();
  if (pending_.size() <= most) return;
  const auto oldest = std::min_element(pending_.begin(), pending_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second.logged, a.second.since) < std::tie(b.second.logged, b.second.since);
  });
  disconnect(oldest->second, "too many unauthenticated connections");
}

void HandshakeWatch::reject(Pending& pending, const std::string& why) {
  if (!std::exchange(pending.logged, true)) unauthenticated_.turned_away(pending.from, why);
}

// The network's thread sees the end of the connection and closes the descriptor. The descriptor cannot have
// been reused by now: the thread that calls this function also closes it, and calls SSL_free right after.
void HandshakeWatch::disconnect(Pending& pending, const std::string& why) {
  if (!pending.logged) ::shutdown(pending.fd, SHUT_RDWR);
  reject(pending, why);
}

void HandshakeWatch::failed(const void* connection, const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = pending_.find(connection); found != pending_.end()) reject(found->second, why);
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
    if (now - pending.since >= kLimit)
      disconnect(pending, "the peer did not prove in time that it belongs to the run");
  }
}

}  // namespace rekindle::actors
