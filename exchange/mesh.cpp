#include "exchange/mesh.hpp"

#include <sys/socket.h>

#include "exchange/failure.hpp"

namespace rekindle::exchange {
namespace {

constexpr int kFramesInARow = 4;  // from one peer, before the next peer is served

Status closed(int peer) { return fail_rank(peer, "it closed the connection"); }

}  // namespace

Mesh::Mesh(std::vector<Connection> connections, int wake, std::function<bool()> aborted, WaitingFor& waiting)
    : wake_(wake), aborted_(std::move(aborted)), waiting_(waiting) {
  for (Connection& c : connections) {
    const auto key_of = [&](FrameKey FrameKeys::*which) {
      return c.keys ? std::optional<FrameKey>((*c.keys).*which) : std::nullopt;
    };
    peers_.push_back(
        {std::move(c.fd), FrameWriter(key_of(&FrameKeys::send)), FrameReader(key_of(&FrameKeys::receive))});
  }
}

bool Mesh::done(const Transfer& transfer, int peer) const {
  const Peer& p = peers_[peer];
  return !p.fd || (!p.out.busy() && !p.in.busy() && transfer.sent_all(peer) && transfer.received_all(peer));
}

// The lowest rank that is most likely the cause of the wait. Most peers are unfinished only because a third
// rank is late. If ranks reported those peers, no rank would report the rank that hangs.
int Mesh::whom_to_wait_for(const Transfer& transfer) const {
  const auto lowest = [&](auto is_it) {
    for (int i = 0; i < static_cast<int>(peers_.size()); ++i)
      if (!done(transfer, i) && is_it(i)) return i;
    return -1;
  };
  if (const int late = lowest([&](int i) { return transfer.is_late(i); }); late >= 0) return late;
  if (const int full = lowest([&](int i) { return peers_[i].out.busy(); }); full >= 0) return full;
  return lowest([](int) { return true; });
}

Status Mesh::run(Transfer& transfer) {
  const int ranks = static_cast<int>(peers_.size());
  std::vector<pollfd> fds(peers_.size() + 1);
  for (;;) {
    if (aborted_()) return forward_error(aborted_error());
    bool all_done = true;
    for (int i = 0; i < ranks; ++i) {
      Peer& p = peers_[i];
      // Peers that are done may close the connection, so poll skips them (negative descriptors).
      const bool is_done = done(transfer, i);
      all_done = all_done && is_done;
      fds[i] = {is_done ? -1 : p.fd.get(), 0, 0};
      if (p.in.busy() || (!transfer.received_all(i) && transfer.has_room(i))) fds[i].events |= POLLIN;
      if (!p.out.busy() && !transfer.sent_all(i)) {
        if (const auto next = transfer.next_out(i)) p.out.begin(*next);
      }
      if (p.out.busy()) fds[i].events |= POLLOUT;
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
      // The data that the peer sent before it closed may be complete. But nothing can be sent to the peer any
      // more.
      if (broken && !done(transfer, i) &&
          !(fds[i].events & POLLIN && transfer.sent_all(i) && !peers_[i].out.busy()))
        return closed(i);
    }
  }
}

Status Mesh::send(Transfer& transfer, int peer) {
  Peer& p = peers_[peer];
  for (int frames = 0; frames < kFramesInARow && p.out.busy();) {
    const IoResult sent = p.out.send_some(p.fd.get());
    if (sent.io == Io::kWouldBlock) return {};
    if (sent.io == Io::kClosed) return closed(peer);
    waiting_.moved();
    if (p.out.busy()) continue;
    ++frames;
    if (transfer.sent_all(peer)) return {};
    if (const auto next = transfer.next_out(peer)) p.out.begin(*next);
  }
  return {};
}

Status Mesh::receive(Transfer& transfer, int peer) {
  Peer& p = peers_[peer];
  for (int frames = 0; frames < kFramesInARow;) {
    if (!p.in.busy() && (transfer.received_all(peer) || !transfer.has_room(peer))) return {};
    const FrameReader::Received got = p.in.receive_some(p.fd.get());
    if (got.io == Io::kWouldBlock) return {};
    if (got.io == Io::kClosed) return closed(peer);
    waiting_.moved();
    if (got.event == FrameReader::Event::kNothing) continue;
    if (got.event == FrameReader::Event::kAltered) return forward_error(altered_error(peer));
    if (got.event == FrameReader::Event::kHead) {
      REKINDLE_TRY(const std::span<std::byte> place, transfer.place(peer, p.in.head()));
      p.in.place(place);
      if (!place.empty()) continue;
    }
    ++frames;
    REKINDLE_CHECK(transfer.arrived(peer, p.in.head()));
  }
  return {};
}

void Mesh::shut_down() noexcept {
  for (const Peer& p : peers_)
    if (p.fd) ::shutdown(p.fd.get(), SHUT_RDWR);
}

}  // namespace rekindle::exchange
