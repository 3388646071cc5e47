// An attacker on the network changes the frames between ranks. With Plan::integrity this is an error that
// names the rank, and never a wrong sum, header or state.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/text.hpp"
#include "cluster.hpp"
#include "gradients.hpp"
#include "relay.hpp"

namespace rekindle::exchange::testing {
namespace {

constexpr std::size_t kFloats = 1'000'003;  // several chunks per shard
constexpr int kLeaves = 4;                  // each rank has the partial sum of two micro-batches

// Repeats a call. Returns its error or "ok".
using Call = std::function<std::string(Member& me, Exchange& exchange, const Plan& plan, int round)>;

std::string outcome_of(const Error& error) {
  return str(error.kind == ErrorKind::kAlteredData ? "altered, " : "", Member::describe(error));
}

std::string reduce(Member& me, Exchange& exchange, const Plan& plan, int) {
  const auto hash = run_step(me.hub, exchange, plan, 3);
  if (hash) return hash->hex() == reference_hash(3, kLeaves, kFloats).hex() ? "ok" : "a wrong sum";
  if (hash.error().rank < 0 && hash.error().kind != ErrorKind::kAborted) return hash.error().line();
  const auto tree = subtrees_of(leaves_of(kLeaves, 2, plan.rank)).front();
  const auto slot = me.hub.slot(0);
  const bool kept = slot && hash_floats(*slot) == hash_floats(reference_sum(3, tree, kFloats));
  if (!exchange.slot_0_overwritten() && !kept) return "slot 0 was overwritten, and is said to be as it was";
  return outcome_of(hash.error());
}

StepHeader header_of(int rank, int round) {
  StepHeader header;
  header.sums[0].sum = round * 2 + rank;
  return header;
}

std::string gather(Member&, Exchange& exchange, const Plan& plan, int round) {
  const auto headers = exchange.gather(header_of(plan.rank, round));
  if (!headers) return outcome_of(headers.error());
  for (int rank = 0; rank < 2; ++rank) {
    const StepHeader expected = header_of(rank, round);
    if (std::memcmp(&(*headers)[rank], &expected, sizeof(StepHeader)) != 0) return "a wrong header";
  }
  return "ok";
}

std::string all_gather(Member&, Exchange& exchange, const Plan& plan, int) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::vector<std::span<std::byte>>> pieces;
  for (int rank = 0; rank < 2; ++rank) {
    memory.emplace_back(std::size_t{5} << 20,
                        rank == plan.rank ? static_cast<std::byte>(rank + 1) : std::byte{});
    pieces.push_back({std::span(memory.back())});
  }
  if (const Status status = exchange.all_gather(pieces); !status) return outcome_of(status.error());
  for (int rank = 0; rank < 2; ++rank)
    if (std::ranges::any_of(memory[rank], [&](std::byte b) { return b != static_cast<std::byte>(rank + 1); }))
      return "wrong bytes";
  return "ok";
}

// The lines of both ranks if rank 1 connects to rank 0 through a relay.
std::vector<Lines> tampered(const Call& call, const Tamper& tamper, bool integrity = true) {
  const auto listener = listen_on("127.0.0.1");
  if (!listener) throw std::runtime_error(listener.error().line());
  Cluster cluster(3, kFloats, [&](Member& me) {
    Plan plan = me.plan(1, {0, 1}, kLeaves, Backend::kTcp);
    if (me.id == 2) return relay(*listener, plan.members[0], integrity, tamper);
    plan.integrity = integrity;
    plan.members[0].address = listener->address;
    plan.members[0].port = listener->port;
    const auto exchange = me.hub.make(plan);
    me.say(me.outcome(exchange->connect()));
    std::string outcome = "ok";
    for (int round = 0; round < 10 && outcome == "ok"; ++round) outcome = call(me, *exchange, plan, round);
    me.say(outcome);
  });
  return cluster.finish();
}

struct Case {
  const char* name;
  Call call;
  Tampering what;
};

class Integrity : public ::testing::TestWithParam<Case> {};

TEST_P(Integrity, ChangedFrameIsAnErrorThatNamesTheRankAndNothingOfItIsUsed) {
  for (const bool of_the_dialer : {true, false}) {
    const auto lines = tampered(GetParam().call, {GetParam().what, of_the_dialer, 3});
    // The receiver detects the change. For the other rank, the receiver has left.
    EXPECT_EQ(lines[0], (Lines{"ok", of_the_dialer ? "altered, rank 1" : "rank 1"}));
    EXPECT_EQ(lines[1], (Lines{"ok", of_the_dialer ? "rank 0" : "altered, rank 0"}));
  }
}

std::vector<Case> cases() {
  const std::vector<std::pair<const char*, Call>> calls{
      {"Reduce", reduce}, {"Gather", gather}, {"AllGather", all_gather}};
  const std::vector<std::pair<const char*, Tampering>> all{{"FlippedHead", Tampering::kFlipHead},
                                                           {"FlippedHeadTag", Tampering::kFlipHeadTag},
                                                           {"FlippedPayload", Tampering::kFlipPayload},
                                                           {"FlippedPayloadTag", Tampering::kFlipPayloadTag},
                                                           {"Repeated", Tampering::kRepeat},
                                                           {"Dropped", Tampering::kDrop},
                                                           {"Swapped", Tampering::kSwap}};
  std::vector<Case> cases;
  for (const auto& [call_name, call] : calls)
    for (const auto& [what_name, what] : all) {
      static std::vector<std::unique_ptr<std::string>> names;
      names.push_back(std::make_unique<std::string>(str(call_name, what_name)));
      cases.push_back({names.back()->c_str(), call, what});
    }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Exchange, Integrity, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// Without tampering, the relay has no effect. Without integrity, no rank notices the tampering.
TEST(IntegrityRelay, PassesEverythingOn) {
  for (const Call& call : {Call(reduce), Call(gather), Call(all_gather)}) {
    for (const bool integrity : {true, false}) {
      const auto lines = tampered(call, {}, integrity);
      for (int rank : {0, 1}) EXPECT_EQ(lines[rank], (Lines{"ok", "ok"}));
    }
  }
}

TEST(IntegrityRelay, FlippedPayloadIsUsedWhereIntegrityIsOff) {
  const std::pair<Call, const char*> all[] = {
      {reduce, "a wrong sum"}, {gather, "a wrong header"}, {all_gather, "wrong bytes"}};
  for (const auto& [call, what] : all) {
    const auto lines = tampered(call, {Tampering::kFlipPayload, true, 3}, false);
    EXPECT_EQ(lines[0], (Lines{"ok", what}));
  }
}

TEST(IntegrityChoice, RanksThatDiffer_GetAnError) {
  for (const int off : {0, 1}) {
    Cluster cluster(2, 100, [&](Member& me) {
      Plan plan = me.plan(1, {0, 1}, 2, Backend::kTcp);
      plan.integrity = me.id != off;
      const auto exchange = me.hub.make(plan);
      const Status met = exchange->connect();
      me.say(me.outcome(met));
      if (!met) me.say(met.error().line());
    });
    const auto lines = cluster.finish();
    for (int rank : {0, 1}) {
      ASSERT_EQ(lines[rank].size(), 2U);
      EXPECT_EQ(lines[rank][0], str("rank ", 1 - rank));
      EXPECT_NE(lines[rank][1].find(str("runs with --exchange-integrity ", rank == off ? "on" : "off",
                                        ", and this rank with ", rank == off ? "off" : "on")),
                std::string::npos)
          << lines[rank][1];
    }
  }
}

}  // namespace
}  // namespace rekindle::exchange::testing
