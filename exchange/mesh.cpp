#include "exchange/mesh.hpp"

#include <sys/socket.h>

#include "base/text.hpp"
#include "exchange/failure.hpp"
#include "exchange/socket.hpp"

namespace rekindle::exchange {
namespace {

constexpr int kFramesInARow = 4;  // then it is another peer's turn
constexpr std::size_t kHeadBytes = sizeof(FrameHead);

Status closed(int peer) { return fail_rank(peer, "it closed the connection"); }

}  // namespace

Mesh::Mesh(std::vector<Fd> sockets, int wake, std::function<bool()> aborted, WaitingFor& waiting)
    : wake_(wake), aborted_(std::move(aborted)), waiting_(waiting) {
  for (Fd& fd : sockets) {
    peers_.emplace_back();
    peers_.back().fd = std::move(fd);
  }
}

bool Mesh::done(const Transfer& transfer, int peer) const {
  const Peer& p = peers_[peer];
  return !p.fd || (!p.sending && !p.receiving && transfer.sent_all(peer) && transfer.received_all(peer));
}

// The lowest of the ranks that have the least excuse. Most peers are unfinished only because a third one is
// late: ranks that named any of those would name each other, and nobody the one that hangs.
int Mesh::whom_to_wait_for(const Transfer& transfer) const {
  const auto lowest = [&](auto is_it) {
    for (int i = 0; i < static_cast<int>(peers_.size()); ++i)
      if (!done(transfer, i) && is_it(i)) return i;
    return -1;
  };
  if (const int late = lowest([&](int i) { return transfer.is_late(i); }); late >= 0) return late;
  if (const int full = lowest([&](int i) { return peers_[i].sending; }); full >= 0) return full;
  return lowest([](int) { return true; });
}

Status Mesh::run(Transfer& transfer) {
  const int ranks = static_cast<int>(peers_.size());
  std::vector<pollfd> fds(peers_.size() + 1);
  for (;;) {
    if (aborted_()) return forward_error(aborted_error());
    bool all_done = true;
    for (int i = 0; i < ranks; ++i) {
      const Peer& p = peers_[i];
      // Peers that are done may close: they are left out (poll skips negative descriptors).
      const bool is_done = done(transfer, i);
      all_done = all_done && is_done;
      fds[i] = {is_done ? -1 : p.fd.get(), 0, 0};
      if (p.receiving || (!transfer.received_all(i) && transfer.has_room(i))) fds[i].events |= POLLIN;
      if (!p.sending && !transfer.sent_all(i)) {
        if (auto next = transfer.next_out(i)) {
          peers_[i].out = *next;
          peers_[i].out_done = 0;
          peers_[i].sending = true;
        }
      }
      if (p.sending) fds[i].events |= POLLOUT;
    }
    if (all_done) return {};
    fds[ranks] = {wake_, POLLIN, 0};
    waiting_.during(whom_to_wait_for(transfer), [&] { return ::poll(fds.data(), fds.size(), -1); });
    for (int i = 0; i < ranks; ++i) {
      const auto events = fds[i].revents;
      if (fds[i].fd < 0 || events == 0) continue;
      const bool broken = (events & (POLLERR | POLLHUP | POLLNVAL)) != 0;
      if (fds[i].events & POLLIN && (events & POLLIN || broken)) REKINDLE_CHECK(receive(transfer, i));
      if (events & POLLOUT) REKINDLE_CHECK(send(transfer, i));
      // What the peer sent before it went may be all that was missing; but nothing can be sent to it any
      // more.
      if (broken && !done(transfer, i) &&
          !(fds[i].events & POLLIN && transfer.sent_all(i) && !peers_[i].sending))
        return closed(i);
    }
  }
}

Status Mesh::send(Transfer& transfer, int peer) {
  Peer& p = peers_[peer];
  for (int frames = 0; frames < kFramesInARow && p.sending;) {
    const auto head = std::as_bytes(std::span(&p.out.head, 1));
    const std::size_t head_done = std::min(p.out_done, kHeadBytes);
    const IoResult sent =
        send_some(p.fd.get(), head.subspan(head_done), p.out.payload.subspan(p.out_done - head_done));
    if (sent.io == Io::kWouldBlock) return {};
    if (sent.io == Io::kClosed) return closed(peer);
    p.out_done += sent.bytes;
    waiting_.moved();
    if (p.out_done < kHeadBytes + p.out.payload.size()) continue;
    p.sending = false;
    ++frames;
    if (transfer.sent_all(peer)) return {};
    if (auto next = transfer.next_out(peer)) {
      p.out = *next;
      p.out_done = 0;
      p.sending = true;
    }
  }
  return {};
}

Status Mesh::receive(Transfer& transfer, int peer) {
  Peer& p = peers_[peer];
  for (int frames = 0; frames < kFramesInARow;) {
    if (!p.receiving) {
      if (transfer.received_all(peer) || !transfer.has_room(peer)) return {};
      p.receiving = true;
      p.in_done = 0;
    }
    const auto head = std::as_writable_bytes(std::span(&p.in, 1));
    const bool in_head = p.in_done < kHeadBytes;
    const IoResult got = receive_some(
        p.fd.get(), in_head ? head.subspan(p.in_done) : p.in_payload.subspan(p.in_done - kHeadBytes));
    if (got.io != Io::kDone) {
      if (p.in_done == 0) p.receiving = false;
      if (got.io == Io::kClosed) return closed(peer);
      return {};
    }
    p.in_done += got.bytes;
    waiting_.moved();
    if (in_head && p.in_done == kHeadBytes) {
      REKINDLE_TRY(p.in_payload, transfer.place(peer, p.in));
    }
    if (p.in_done < kHeadBytes || p.in_done < kHeadBytes + p.in_payload.size()) continue;
    p.receiving = false;
    ++frames;
    REKINDLE_CHECK(transfer.arrived(peer, p.in));
  }
  return {};
}

void Mesh::shut_down() noexcept {
  for (const Peer& p : peers_)
    if (p.fd) ::shutdown(p.fd.get(), SHUT_RDWR);
}

}  // namespace rekindle::exchange
