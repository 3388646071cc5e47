#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "cluster.hpp"
#include "exchange/handshake.hpp"
#include "exchange/socket.hpp"
#include "gradients.hpp"

namespace rekindle::exchange::testing {
namespace {

Fd call(const Endpoint& endpoint, const std::string& first_words) {
  auto fd = dial(endpoint.address, endpoint.port);
  EXPECT_TRUE(fd);
  pollfd ready{fd->get(), POLLOUT, 0};
  EXPECT_EQ(::poll(&ready, 1, 60'000), 1);
  EXPECT_EQ(connect_error(fd->get()), 0);
  if (!first_words.empty()) {
    EXPECT_EQ(send_some(fd->get(), std::as_bytes(std::span(first_words)), {}).bytes, first_words.size());
  }
  return std::move(*fd);
}

// The bytes from the other side until it closes the connection or sends nothing for a while.
std::string read_exactly(const Fd& fd, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::size_t have = 0;
  while (have < bytes) {
    pollfd ready{fd.get(), POLLIN, 0};
    if (::poll(&ready, 1, 60'000) != 1) return "timeout";
    const IoResult got = receive_some(fd.get(), std::as_writable_bytes(std::span(text)).subspan(have));
    if (got.io == Io::kClosed) return text.substr(0, have);
    have += got.bytes;
  }
  return text;
}

TEST(UnauthenticatedPeers, GarbageSilenceAndWrongSecretsDoNoHarmAndGetNothing) {
  constexpr std::size_t kFloats = 5000;
  Cluster cluster(2, kFloats, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1}, 2, Backend::kTcp);
    const auto exchange = me.hub.make(plan);
    me.wait_for(0, 1);                  // the unauthenticated peers are the first in the queue
    if (me.id == 1) me.wait_for(1, 1);  // rank 0 has refused the impostor
    me.say(me.outcome(exchange->connect()));
    const auto hash = run_step(me.hub, *exchange, plan, 0);
    me.say(hash ? hash->hex() : hash.error().line());
  });
  const Endpoint target = cluster.endpoint(0);
  std::vector<Fd> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(call(target, ""));
  strangers.push_back(call(target, std::string(100'000, 'x')));
  strangers.push_back(call(target, "GET / HTTP/1.0\r\n\r\n"));
  strangers.push_back(call(target, "x"));
  call(target, "");  // closes the connection at once
  // A peer with all correct values except the secret.
  const Membership impostor{7, 1, 1, 2, "guessed"};
  Handshake shake = Handshake::dial(impostor, 0, random_nonce());
  const Fd impostor_fd = call(target, shake.opening());
  cluster.mark(0);
  const std::string challenge = read_exactly(impostor_fd, kChallengeBytes);
  ASSERT_EQ(challenge.size(), kChallengeBytes);
  EXPECT_FALSE(shake.take(challenge)) << "a challenge by rank 0 must not satisfy another secret";
  const std::string proof(kProofBytes, 'p');
  EXPECT_EQ(send_some(impostor_fd.get(), std::as_bytes(std::span(proof)), {}).bytes, proof.size());
  EXPECT_EQ(read_exactly(impostor_fd, 1), "");  // rank 0 has closed the connection
  cluster.mark(1);
  const Lines expected{"ok", reference_hash(0, 2, kFloats).hex()};
  for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, expected);
}

TEST(UnauthenticatedPeers, MoreSilentPeersThanMayWait_MembersStillConnect) {
  constexpr std::size_t kFloats = 100;
  Cluster cluster(3, kFloats, [&](Member& me) {
    const Plan plan = me.plan(1, {0, 1, 2}, 4, Backend::kTcp);
    const auto exchange = me.hub.make(plan);
    me.wait_for(0, 1);
    me.say(me.outcome(exchange->connect()));
    me.say(me.outcome(run_step(me.hub, *exchange, plan, 0)));
  });
  const Endpoint target = cluster.endpoint(0);
  std::vector<Fd> strangers;
  for (int i = 0; i < 600; ++i) strangers.push_back(call(target, ""));
  cluster.mark(0);
  for (const Lines& lines : cluster.finish()) EXPECT_EQ(lines, (Lines{"ok", "ok"}));
}

TEST(UnauthenticatedPeers, MemberWithAWrongSecretWaitsAndDisturbsNobody) {
  Cluster cluster(3, 100, [&](Member& me) {
    Plan plan = me.plan(1, {0, 1}, 2, Backend::kTcp);
    if (me.id == 2) {  // claims to be rank 1
      plan.rank = 1;
      plan.secret = "wrong";
    }
    const auto exchange = me.hub.make(plan);
    if (me.id == 1) me.wait_for(0, 1);
    if (me.id == 2) {
      me.mark(0);
      std::thread coordinator([&] {
        me.wait_for(1, 2);
        exchange->abort();
      });
      me.say(me.outcome(exchange->connect()));
      coordinator.join();
      me.mark(1);
      return;
    }
    me.say(me.outcome(exchange->connect()));
    me.say(me.outcome(run_step(me.hub, *exchange, plan, 0)));
    me.meet_at(1, 3);
  });
  const auto lines = cluster.finish();
  EXPECT_EQ(lines[0], (Lines{"ok", "ok"}));
  EXPECT_EQ(lines[1], (Lines{"ok", "ok"}));
  EXPECT_EQ(lines[2], Lines{"aborted"});
}

}  // namespace
}  // namespace rekindle::exchange::testing
