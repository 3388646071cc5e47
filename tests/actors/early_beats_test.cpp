// A coordinator that reads long records gives signs of life, so that its supervisor does not kill it.
#include <gtest/gtest.h>

#include <variant>

#include "actors/early_beats.hpp"

namespace rekindle::actors {
namespace {

using namespace protocol;
using std::chrono::seconds;

struct EarlyBeatsTest : ::testing::Test {
  // The term of the beat that the supervisor finds; 0: none.
  std::uint64_t beat_seen() {
    if (!supervisor.pending()) return 0;
    const auto text = supervisor.receive();
    if (!text || !*text) return 0;
    const auto message = decode<ToSupervisor>(**text);
    const auto* const beat = message ? std::get_if<CoordinatorBeat>(&*message) : nullptr;
    return beat == nullptr ? 0 : beat->term;
  }

  std::pair<Fd, Fd> sockets = Channel::pair().value();
  Channel coordinator{std::move(sockets.first)}, supervisor{std::move(sockets.second)};
  EarlyBeats beats{coordinator, 7, seconds(100)};
};

TEST_F(EarlyBeatsTest, AReadOfMinutes_ABeatEveryFewSeconds) {
  beats.progress(seconds(101));
  EXPECT_EQ(beat_seen(), 0U);
  for (seconds now(103); now < seconds(300); now += seconds(3)) {
    beats.progress(now);
    beats.progress(now + seconds(1));
    EXPECT_EQ(beat_seen(), 7U) << now.count();
    EXPECT_EQ(beat_seen(), 0U) << now.count();
  }
}

TEST_F(EarlyBeatsTest, ASuspendedSupervisor_DoesNotBlockTheRead) {
  for (seconds now(100); now < seconds(1000000); now += seconds(3)) beats.progress(now);
  EXPECT_EQ(beat_seen(), 7U);
}

}  // namespace
}  // namespace rekindle::actors
