#include "relay.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "exchange/frame.hpp"
#include "exchange/handshake.hpp"

namespace rekindle::exchange::testing {
namespace {

using Bytes = std::vector<std::byte>;

void make_blocking(const Fd& fd) { ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK); }

void wait_for(const Fd& fd, short event) {
  pollfd ready{fd.get(), event, 0};
  if (::poll(&ready, 1, 60'000) != 1) throw std::runtime_error("the relay waited in vain");
}

// Empty: the connection has ended.
Bytes receive(const Fd& from, std::size_t bytes) {
  Bytes all(bytes);
  if (::recv(from.get(), all.data(), bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) all.clear();
  return all;
}

void send(const Fd& to, const Bytes& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::send(to.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n <= 0) return;  // the other direction also ends
    done += static_cast<std::size_t>(n);
  }
}

class Direction {
 public:
  Direction(const Fd& from, const Fd& to, bool integrity)
      : from_(from), to_(to), tag_(integrity ? sizeof(FrameTag) : 0) {}

  void run(const Tamper& tamper) {
    for (int frame = 0;; ++frame) {
      Bytes bytes = next_frame();
      if (bytes.empty()) break;
      if (frame == tamper.frame)
        pass_on(std::move(bytes), tamper.what);
      else
        send(to_, bytes);
    }
    ::shutdown(to_.get(), SHUT_WR);
  }

 private:
  Bytes next_frame() {
    Bytes frame = receive(from_, sizeof(FrameHead) + tag_);
    if (frame.empty()) return frame;
    FrameHead head;
    std::memcpy(&head, frame.data(), sizeof head);
    if (head.bytes == 0) return frame;
    const Bytes payload = receive(from_, head.bytes + tag_);
    if (payload.empty()) return payload;
    frame.insert(frame.end(), payload.begin(), payload.end());
    return frame;
  }

  void pass_on(Bytes frame, Tampering what) {
    const auto flip = [&](std::size_t at) {
      frame.at(at) ^= std::byte{0x10};
      send(to_, frame);
    };
    switch (what) {
      case Tampering::kNone:
        return send(to_, frame);
      case Tampering::kFlipHead:
        return flip(9);  // in the number of the chunk
      case Tampering::kFlipHeadTag:
        return flip(sizeof(FrameHead) + 5);
      case Tampering::kFlipPayload:
        return flip(sizeof(FrameHead) + tag_ + 23);  // of a float, an exponent
      case Tampering::kFlipPayloadTag:
        return flip(frame.size() - 1);
      case Tampering::kRepeat:
        send(to_, frame);
        return send(to_, frame);
      case Tampering::kDrop:
        return;
      case Tampering::kSwap:
        const Bytes after = next_frame();
        send(to_, after);
        return send(to_, frame);
    }
  }

  const Fd& from_;
  const Fd& to_;
  const std::size_t tag_;
};

void pass(const Fd& from, const Fd& to, std::size_t bytes) { send(to, receive(from, bytes)); }

}  // namespace

void relay(const Listener& listener, const Endpoint& target, bool integrity, const Tamper& tamper) {
  wait_for(listener.fd, POLLIN);
  const Fd dialer = accept_from(listener.fd.get());
  const auto acceptor = dial(target.address, target.port);
  if (!acceptor) throw std::runtime_error(acceptor.error().line());
  wait_for(*acceptor, POLLOUT);
  make_blocking(dialer);
  make_blocking(*acceptor);
  pass(dialer, *acceptor, kHelloBytes);
  pass(*acceptor, dialer, kChallengeBytes);
  pass(dialer, *acceptor, kProofBytes);
  pass(*acceptor, dialer, kWelcomeBytes);
  const Tamper none{};
  std::thread back(
      [&] { Direction(*acceptor, dialer, integrity).run(tamper.of_the_dialer ? none : tamper); });
  Direction(dialer, *acceptor, integrity).run(tamper.of_the_dialer ? tamper : none);
  back.join();
}

}  // namespace rekindle::exchange::testing
