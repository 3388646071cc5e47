#include "exchange/handshake.hpp"

#include <gtest/gtest.h>

namespace rekindle::exchange {
namespace {

const Membership kDialer{3, 9, 1, 2, "the secret"};
const Membership kAcceptor{3, 9, 0, 2, "the secret"};

struct Ends {
  Handshake dialer, acceptor;
};
Ends ends(const Membership& dialer, const Membership& acceptor) {
  return {Handshake::dial(dialer, 0, random_nonce()), Handshake::accept(acceptor, random_nonce())};
}

TEST(Handshake, MembersMeet) {
  Ends e = ends(kDialer, kAcceptor);
  std::string frame = e.dialer.opening();
  EXPECT_EQ(frame.size(), e.acceptor.wants());
  while (!e.dialer.done() || !e.acceptor.done()) {
    Handshake& next = e.acceptor.wants() == frame.size() && !e.acceptor.done() ? e.acceptor : e.dialer;
    auto answer = next.take(frame);
    ASSERT_TRUE(answer) << answer.error().line();
    frame = *answer;
  }
  EXPECT_EQ(e.acceptor.peer(), 1);
  EXPECT_EQ(e.dialer.peer(), 0);
}

// Runs the handshake, which must succeed.
void meet(Ends& e) {
  std::string frame = e.dialer.opening();
  for (Handshake* next : {&e.acceptor, &e.dialer, &e.acceptor, &e.dialer}) {
    auto answer = next->take(frame);
    ASSERT_TRUE(answer) << answer.error().line();
    frame = *answer;
  }
  ASSERT_TRUE(e.dialer.done() && e.acceptor.done());
}

TEST(Handshake, BothHaveTheSameKeysAndEachDirectionItsOwn) {
  Ends e = ends(kDialer, kAcceptor), again = ends(kDialer, kAcceptor);
  ASSERT_NO_FATAL_FAILURE(meet(e));
  ASSERT_NO_FATAL_FAILURE(meet(again));
  const FrameKeys dialer = e.dialer.keys(), acceptor = e.acceptor.keys();
  EXPECT_EQ(dialer.send, acceptor.receive);
  EXPECT_EQ(dialer.receive, acceptor.send);
  EXPECT_NE(dialer.send.key, dialer.receive.key);
  EXPECT_NE(dialer.send.iv, dialer.receive.iv);
  EXPECT_NE(dialer.send.key, again.dialer.keys().send.key) << "the nonces are others";
}

TEST(Handshake, BothLearnWhetherTheOthersFramesHaveTags) {
  for (const bool dialer : {false, true}) {
    for (const bool acceptor : {false, true}) {
      Membership d = kDialer, a = kAcceptor;
      d.integrity = dialer;
      a.integrity = acceptor;
      Ends e = ends(d, a);
      ASSERT_NO_FATAL_FAILURE(meet(e));
      EXPECT_EQ(e.dialer.peer_integrity(), acceptor);
      EXPECT_EQ(e.acceptor.peer_integrity(), dialer);
    }
  }
}

// Otherwise an attacker on the network could switch integrity off.
TEST(Handshake, ChoiceOfIntegrityThatWasChangedOnTheWayIsRefused) {
  Ends e = ends(kDialer, kAcceptor);
  std::string hello = e.dialer.opening();
  hello[32] ^= 1;
  EXPECT_FALSE(e.dialer.take(*e.acceptor.take(hello)));
  e = ends(kDialer, kAcceptor);
  std::string challenge = *e.acceptor.take(e.dialer.opening());
  challenge[32] ^= 1;
  EXPECT_FALSE(e.dialer.take(challenge));
}

TEST(Handshake, AcceptorWithAnotherSecretIsNotBelieved) {
  Membership stranger = kAcceptor;
  stranger.secret = "another";
  Ends e = ends(kDialer, stranger);
  const auto challenge = e.acceptor.take(e.dialer.opening());
  ASSERT_TRUE(challenge);
  EXPECT_FALSE(e.dialer.take(*challenge));
}

TEST(Handshake, DialerWithAnotherSecretIsNotBelieved) {
  Ends e = ends(kDialer, kAcceptor);
  ASSERT_TRUE(e.acceptor.take(e.dialer.opening()));
  EXPECT_FALSE(e.acceptor.take(std::string(kProofBytes, 'x')));
}

TEST(Handshake, ReplayedProofIsRefused) {
  Ends first = ends(kDialer, kAcceptor);
  const std::string hello = first.dialer.opening();
  const std::string proof = *first.dialer.take(*first.acceptor.take(hello));
  ASSERT_TRUE(first.acceptor.take(proof));
  Handshake second = Handshake::accept(kAcceptor, random_nonce());
  ASSERT_TRUE(second.take(hello));
  EXPECT_FALSE(second.take(proof));
}

TEST(Handshake, AcceptorsProofReflectedAsTheDialersIsRefused) {
  Ends e = ends(kDialer, kAcceptor);
  const std::string challenge = *e.acceptor.take(e.dialer.opening());
  EXPECT_FALSE(e.acceptor.take(challenge.substr(40)));
}

TEST(Handshake, HelloForAnotherGenerationRankOrMeshIsRefused) {
  for (const auto& change : std::vector<void (*)(Membership&)>{
           [](Membership& m) { m.generation = 8; }, [](Membership& m) { m.term = 4; },
           [](Membership& m) { m.rank = 2; }, [](Membership& m) { m.rank = 0; }}) {
    Membership dialer = kDialer;
    change(dialer);
    Ends e = ends(dialer, kAcceptor);
    EXPECT_FALSE(e.acceptor.take(e.dialer.opening()));
  }
  EXPECT_FALSE(parse_hello(std::string(kHelloBytes, 'x')));
}

}  // namespace
}  // namespace rekindle::exchange
