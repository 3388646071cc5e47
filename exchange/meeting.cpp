#include "exchange/meeting.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <optional>
#include <tuple>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "exchange/failure.hpp"
#include "exchange/handshake.hpp"

namespace rekindle::exchange {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHelloLimit{10'000};  // for an accepted connection to authenticate
constexpr milliseconds kRedialPause{20};     // a peer that closed the connection is in an older generation
constexpr std::size_t kMaxPending = 256;     // accepted connections that are not yet authenticated
constexpr std::size_t kMaxHeld = 256;

constexpr const char* kNotProved = "it has not proved that it belongs to this generation";

struct Greeting {
  Fd fd;
  Handshake shake;
  bool connecting = false;
  std::string in, out;
  milliseconds deadline = milliseconds::max();
};

class Meeting {
 public:
  Meeting(const Plan& plan, Acceptor& acceptor, int wake, const std::function<bool()>& aborted,
          WaitingFor& waiting)
      : plan_(plan),
        acceptor_(acceptor),
        wake_(wake),
        aborted_(aborted),
        waiting_(waiting),
        me_{plan.term,   plan.generation, plan.rank, static_cast<int>(plan.members.size()),
            plan.secret, plan.integrity},
        connections_(plan.members.size()),
        dials_(static_cast<std::size_t>(plan.rank)) {}

  Result<std::vector<Connection>> run() {
    missing_ = plan_.members.size() - 1;
    REKINDLE_CHECK(welcome_held());
    while (missing_ > 0) {
      if (aborted_()) return forward_error(aborted_error());
      now_ = boot_time();
      for (int rank = 0; rank < plan_.rank; ++rank) REKINDLE_CHECK(keep_dialing(rank));
      wait();
      now_ = boot_time();
      for (int rank = 0; rank < plan_.rank; ++rank) REKINDLE_CHECK(advance_dial(rank));
      accept_pending();
      for (auto pending = pending_.begin(); pending != pending_.end();) {
        REKINDLE_TRY(const bool stays, advance_pending(*pending));
        pending = stays ? std::next(pending) : pending_.erase(pending);
      }
    }
    for (const Greeting& pending : pending_) turn_away(pending, kNotProved);
    return std::move(connections_);
  }

 private:
  struct Dial {
    std::optional<Greeting> greeting;
    milliseconds next_try{0};
  };

  Status welcome_held() {
    std::vector<HeldHello> held;
    std::swap(held, acceptor_.held);
    for (HeldHello& h : held) {
      add_pending(std::move(h.fd));
      pending_.back().in = std::move(h.hello);
      REKINDLE_TRY(const bool stays, advance_pending(pending_.back()));
      if (!stays) pending_.pop_back();
    }
    return {};
  }

  Status keep_dialing(int rank) {
    Dial& d = dials_[rank];
    if (d.greeting || connections_[rank].fd || now_ < d.next_try) return {};
    const Endpoint& to = plan_.members[rank];
    auto fd = dial(to.address, to.port);
    if (!fd) return fail_rank(rank, fd.error().line());
    d.greeting.emplace(Greeting{std::move(*fd), Handshake::dial(me_, rank, random_nonce()), true, {}, {}});
    d.greeting->out = d.greeting->shake.opening();
    return {};
  }

  void wait() {
    std::vector<pollfd> fds{{wake_, POLLIN, 0}, {acceptor_.listener.fd.get(), POLLIN, 0}};
    milliseconds until = now_ + milliseconds(1000);
    const auto add = [&](const Greeting& g) {
      const bool sending = g.connecting || !g.out.empty();
      fds.push_back({g.fd.get(), static_cast<short>(sending ? POLLOUT : POLLIN), 0});
      until = std::min(until, g.deadline);
    };
    for (std::size_t rank = 0; rank < dials_.size(); ++rank) {
      if (dials_[rank].greeting)
        add(*dials_[rank].greeting);
      else if (!connections_[rank].fd)
        until = std::min(until, dials_[rank].next_try);
    }
    for (const Greeting& pending : pending_) add(pending);
    const auto timeout = std::max<milliseconds::rep>(0, (until - now_).count());
    waiting_.during(lowest_missing(),
                    [&] { return ::poll(fds.data(), fds.size(), static_cast<int>(timeout)); });
  }

  int lowest_missing() const {
    int rank = 0;
    while (rank == plan_.rank || connections_[rank].fd) ++rank;
    return rank;
  }

  // A failed connect is a peer failure, because a trainer listens before it sends its endpoint. If a peer
  // closes the connection, this rank dials again: the peer is still in another generation, or dropped this
  // connection because of too many unauthenticated ones.
  Status advance_dial(int rank) {
    Dial& d = dials_[rank];
    if (!d.greeting) return {};
    Greeting& g = *d.greeting;
    if (g.connecting) {
      pollfd ready{g.fd.get(), POLLOUT, 0};
      if (::poll(&ready, 1, 0) == 0) return {};
      if (const int error = connect_error(g.fd.get()); error != 0)
        return fail_rank(rank, str("cannot connect to ", plan_.members[rank].address, " port ",
                                   plan_.members[rank].port, ": ", std::strerror(error)));
      g.connecting = false;
    }
    if (!exchange_frames(g)) {
      d.greeting.reset();
      d.next_try = now_ + kRedialPause;
    } else if (g.shake.done()) {
      REKINDLE_CHECK(take(g));
      d.greeting.reset();
    }
    return {};
  }

  void add_pending(Fd fd) {
    if (pending_.size() >= kMaxPending) {
      turn_away(pending_.front(), kNotProved);
      pending_.pop_front();
    }
    pending_.push_back(
        Greeting{std::move(fd), Handshake::accept(me_, random_nonce()), false, {}, {}, now_ + kHelloLimit});
  }

  void accept_pending() {
    for (std::size_t i = 0; i < kMaxPending; ++i) {
      Fd fd = accept_from(acceptor_.listener.fd.get());
      if (!fd) return;
      add_pending(std::move(fd));
    }
  }

  // A peer has proved that it is a member.
  Status take(Greeting& g) {
    const int rank = g.shake.peer();
    if (g.shake.peer_integrity() != plan_.integrity)
      return fail_rank(rank, str("it runs with --exchange-integrity ", plan_.integrity ? "off" : "on",
                                 ", and this rank with ", plan_.integrity ? "on" : "off"));
    Connection& place = connections_[rank];
    // A second connection replaces the first one, because the first one may have failed before the peer
    // dialed again.
    if (!place.fd) --missing_;
    place.fd = std::move(g.fd);
    if (plan_.integrity) place.keys = g.shake.keys();
    return {};
  }

  // False: the connection is no longer pending (accepted as a member, or closed).
  Result<bool> advance_pending(Greeting& g) {
    if (!exchange_frames(g)) return false;
    if (g.shake.done() && g.out.empty()) {
      REKINDLE_CHECK(take(g));
      return false;
    }
    if (now_ < g.deadline) return true;
    turn_away(g, kNotProved);
    return false;
  }

  void turn_away(const Greeting& g, const std::string& why) {
    acceptor_.unauthenticated.turned_away(peer_address(g.fd.get()), why);
  }

  // Sends and receives without blocking. False: close the connection.
  bool exchange_frames(Greeting& g) {
    for (;;) {
      if (!g.out.empty()) {
        const IoResult sent = send_some(g.fd.get(), std::as_bytes(std::span(g.out)), {});
        if (sent.io != Io::kDone) return sent.io == Io::kWouldBlock;
        g.out.erase(0, sent.bytes);
        continue;
      }
      if (g.shake.done()) return true;
      const std::size_t have = g.in.size(), want = g.shake.wants();
      if (have < want) {
        g.in.resize(want);
        const IoResult got = receive_some(g.fd.get(), std::as_writable_bytes(std::span(g.in)).subspan(have));
        g.in.resize(have + got.bytes);
        if (got.io != Io::kDone) return got.io == Io::kWouldBlock;
        if (g.in.size() < want) continue;
      }
      if (hold_if_newer(g)) return false;
      auto answer = g.shake.take(g.in);
      if (!answer) {
        const bool pending = g.deadline != milliseconds::max();
        if (pending) turn_away(g, answer.error().what);
        return false;
      }
      g.in.clear();
      g.out = std::move(*answer);
    }
  }

  bool hold_if_newer(Greeting& g) {
    const auto hello = parse_hello(g.in);
    if (g.shake.wants() != kHelloBytes || g.shake.peer() >= 0 || !hello) return false;
    if (std::tie(hello->term, hello->generation) <= std::tie(plan_.term, plan_.generation)) return false;
    if (acceptor_.held.size() >= kMaxHeld) acceptor_.held.erase(acceptor_.held.begin());
    acceptor_.held.push_back({std::move(g.fd), std::move(g.in)});
    return true;
  }

  const Plan& plan_;
  Acceptor& acceptor_;
  const int wake_;
  const std::function<bool()>& aborted_;
  WaitingFor& waiting_;
  const Membership me_;
  std::vector<Connection> connections_;
  std::vector<Dial> dials_;
  std::list<Greeting> pending_;
  std::size_t missing_ = 0;
  milliseconds now_ = boot_time();
};

}  // namespace

Result<std::vector<Connection>> meet_members(const Plan& plan, Acceptor& acceptor, int wake,
                                             const std::function<bool()>& aborted, WaitingFor& waiting) {
  return Meeting(plan, acceptor, wake, aborted, waiting).run();
}

}  // namespace rekindle::exchange
