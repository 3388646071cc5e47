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

constexpr milliseconds kHelloLimit{10'000};  // for an accepted connection to prove itself
constexpr milliseconds kRedialPause{20};     // a peer that closed on us is still in an older generation
constexpr std::size_t kMaxGuests = 256;      // accepted connections that have not proved themselves
constexpr std::size_t kMaxHeld = 256;

constexpr const char* kSilent = "it has not proved that it belongs to this generation";

struct Greeting {
  Fd fd;
  Handshake shake;
  bool connecting = false;
  std::string in, out;
  milliseconds deadline = milliseconds::max();
};

class Meeting {
 public:
  Meeting(const Plan& plan, Door& door, int wake, const std::function<bool()>& aborted, WaitingFor& waiting)
      : plan_(plan),
        door_(door),
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
      accept_guests();
      for (auto guest = guests_.begin(); guest != guests_.end();) {
        REKINDLE_TRY(const bool stays, advance_guest(*guest));
        guest = stays ? std::next(guest) : guests_.erase(guest);
      }
    }
    for (const Greeting& guest : guests_) turn_away(guest, kSilent);
    return std::move(connections_);
  }

 private:
  struct Dial {
    std::optional<Greeting> greeting;
    milliseconds next_try{0};
  };

  Status welcome_held() {
    std::vector<HeldHello> held;
    std::swap(held, door_.held);
    for (HeldHello& h : held) {
      add_guest(std::move(h.fd));
      guests_.back().in = std::move(h.hello);
      REKINDLE_TRY(const bool stays, advance_guest(guests_.back()));
      if (!stays) guests_.pop_back();
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
    std::vector<pollfd> fds{{wake_, POLLIN, 0}, {door_.listener.fd.get(), POLLIN, 0}};
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
    for (const Greeting& guest : guests_) add(guest);
    const auto timeout = std::max<milliseconds::rep>(0, (until - now_).count());
    waiting_.during(lowest_missing(),
                    [&] { return ::poll(fds.data(), fds.size(), static_cast<int>(timeout)); });
  }

  int lowest_missing() const {
    int rank = 0;
    while (rank == plan_.rank || connections_[rank].fd) ++rank;
    return rank;
  }

  // A peer that cannot be reached at all is a failure: its trainer listens before its endpoint travels. A
  // peer that hangs up is tried again: it is still in another generation, or was overrun by strangers.
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

  void add_guest(Fd fd) {
    if (guests_.size() >= kMaxGuests) {
      turn_away(guests_.front(), kSilent);
      guests_.pop_front();
    }
    guests_.push_back(
        Greeting{std::move(fd), Handshake::accept(me_, random_nonce()), false, {}, {}, now_ + kHelloLimit});
  }

  void accept_guests() {
    for (std::size_t i = 0; i < kMaxGuests; ++i) {
      Fd fd = accept_from(door_.listener.fd.get());
      if (!fd) return;
      add_guest(std::move(fd));
    }
  }

  // A member has proved itself.
  Status take(Greeting& g) {
    const int rank = g.shake.peer();
    if (g.shake.peer_integrity() != plan_.integrity)
      return fail_rank(rank, str("it runs with --exchange-integrity ", plan_.integrity ? "off" : "on",
                                 ", and this rank with ", plan_.integrity ? "on" : "off"));
    Connection& place = connections_[rank];
    // The peer's first connection may have died on the way while its second one was made: the last one
    // counts.
    if (!place.fd) --missing_;
    place.fd = std::move(g.fd);
    if (plan_.integrity) place.keys = g.shake.keys();
    return {};
  }

  // False: the guest is done with, one way or the other.
  Result<bool> advance_guest(Greeting& g) {
    if (!exchange_frames(g)) return false;
    if (g.shake.done() && g.out.empty()) {
      REKINDLE_CHECK(take(g));
      return false;
    }
    if (now_ < g.deadline) return true;
    turn_away(g, kSilent);
    return false;
  }

  void turn_away(const Greeting& g, const std::string& why) {
    door_.strangers.turned_away(peer_address(g.fd.get()), why);
  }

  // Sends and receives what can be without waiting; false: close the connection.
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
        const bool guest = g.deadline != milliseconds::max();
        if (guest) turn_away(g, answer.error().what);
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
    if (door_.held.size() >= kMaxHeld) door_.held.erase(door_.held.begin());
    door_.held.push_back({std::move(g.fd), std::move(g.in)});
    return true;
  }

  const Plan& plan_;
  Door& door_;
  const int wake_;
  const std::function<bool()>& aborted_;
  WaitingFor& waiting_;
  const Membership me_;
  std::vector<Connection> connections_;
  std::vector<Dial> dials_;
  std::list<Greeting> guests_;
  std::size_t missing_ = 0;
  milliseconds now_ = boot_time();
};

}  // namespace

Result<std::vector<Connection>> meet_members(const Plan& plan, Door& door, int wake,
                                             const std::function<bool()>& aborted, WaitingFor& waiting) {
  return Meeting(plan, door, wake, aborted, waiting).run();
}

}  // namespace rekindle::exchange
