#include "run/place.hpp"

#include "base/clock.hpp"
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

TEST_F(Place, TheCertificate_IsUnknownInAFileOfAnEarlierVersion) {
  coordinator_listens_on("10.0.0.7");
  ASSERT_TRUE(read_place(layout_));
  EXPECT_EQ(read_place(layout_)->certificate, "");
  std::ofstream(layout_.coordinator().path())
      << R"({"term": 1, "host": "10.0.0.7", "port": 4711, "certificate": "00ff"})";
  ASSERT_TRUE(read_place(layout_));
  EXPECT_EQ(read_place(layout_)->certificate, "00ff");
}

TEST_F(Place, ALoopbackAddress_IsThatOfTheHostOfTheRun) {
  coordinator_listens_on("127.0.0.1");
  write_term(1, "n7", "another boot", 4711);
  EXPECT_EQ(foreign_loopback(layout_), "host n7");
  coordinator_listens_on("10.0.0.7");
  EXPECT_EQ(foreign_loopback(layout_), "");
}

TEST_F(Place, OfThisMachineOrBetweenTwoAttempts_IsNoOther) {
  EXPECT_EQ(foreign_loopback(layout_), "");
  coordinator_listens_on("127.0.0.1");
  EXPECT_EQ(foreign_loopback(layout_), "") << "no attempt has begun";
  write_term(1, "another name", boot_id(), 4711);
  EXPECT_EQ(foreign_loopback(layout_), "");
  write_term(2, "n7", "another boot", 4711);
  std::ofstream((layout_.terms() / "0002.ended").path()) << "";
  EXPECT_EQ(foreign_loopback(layout_), "") << "the next attempt may listen elsewhere";
}

// Two containers of one host share its boot, but not always its network.
TEST_F(Place, OfAnotherNetworkOfThisMachine_IsNamed) {
  coordinator_listens_on("127.0.0.1");
  write_claim(1, {{"host", "a1b2"}, {"boot_id", boot_id()}, {"network_namespace", "net:[1]"}});
  EXPECT_EQ(foreign_loopback(layout_), "another container of this machine (a1b2)");
  write_claim(2, {{"host", "a1b2"}, {"boot_id", boot_id()}, {"network_namespace", "net:[1]"}});
  EXPECT_EQ(foreign_loopback(layout_), "") << "the coordinator of term 2 has not said yet where it listens";
  fs::remove((layout_.terms() / "0002").path());
  write_claim(1, {{"host", "a1b2"}, {"boot_id", boot_id()}, {"network_namespace", network_namespace()}});
  EXPECT_EQ(foreign_loopback(layout_), "");
}

}  // namespace
}  // namespace rekindle::run
