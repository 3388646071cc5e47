#include "run/place.hpp"

#include "run_directory_fixture.hpp"

namespace rekindle::run {
namespace {

class Place : public RunDirectory {
 protected:
  void coordinator_listens_on(const char* host) {
    std::ofstream(layout_.coordinator().path())
        << nlohmann::json{{"term", 1}, {"host", host}, {"port", 4711}};
  }
};

TEST_F(Place, ALoopbackAddress_IsThatOfTheHostOfTheRun) {
  coordinator_listens_on("127.0.0.1");
  write_term(1, "n7", "another boot", 4711);
  EXPECT_EQ(loopback_of_another_host(layout_), "n7");
  coordinator_listens_on("10.0.0.7");
  EXPECT_EQ(loopback_of_another_host(layout_), "");
}

TEST_F(Place, OfThisMachineOrBetweenTwoAttempts_IsNoOther) {
  EXPECT_EQ(loopback_of_another_host(layout_), "");
  coordinator_listens_on("127.0.0.1");
  EXPECT_EQ(loopback_of_another_host(layout_), "") << "no attempt has begun";
  write_term(1, "another name", boot_id(), 4711);
  EXPECT_EQ(loopback_of_another_host(layout_), "");
  write_term(2, "n7", "another boot", 4711);
  std::ofstream((layout_.terms() / "0002.ended").path()) << "";
  EXPECT_EQ(loopback_of_another_host(layout_), "") << "the next attempt may listen elsewhere";
}

}  // namespace
}  // namespace rekindle::run
