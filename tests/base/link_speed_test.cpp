#include "base/link_speed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../temporary_directory.hpp"

namespace rekindle {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LinkSpeed : public ::testing::Test {
 protected:
  void ethernet(const std::string& name, int megabits) {
    fs::create_directories(sys_.path() / "class/net" / name);
    std::ofstream(sys_.path() / "class/net" / name / "speed") << megabits << "\n";
  }
  void infiniband(const std::string& name, const char* rate) {
    const fs::path port = sys_.path() / "class/net" / name / "device/infiniband/mlx5_0/ports/1";
    fs::create_directories(port);
    std::ofstream(port / "rate") << rate << "\n";
  }
  std::string line(const std::string& address) { return slow_link(there_, address, sys_.path()); }

  const TemporaryDirectory sys_;
  const std::vector<Interface> there_ = {{"lo", "127.0.0.1", true},
                                         {"eno1", "10.0.0.7", false},
                                         {"eno2", "10.1.0.7", false},
                                         {"ib0", "10.2.0.7", false}};
};

TEST_F(LinkSpeed, OfTheManagementNetwork_NamesTheFasterOne) {
  ethernet("eno1", 1000);
  ethernet("eno2", 2500);
  infiniband("ib0", "200 Gb/sec (4X HDR)");
  EXPECT_EQ(megabits_of("ib0", sys_.path()), 200'000U);
  EXPECT_THAT(line("10.0.0.7"),
              HasSubstr("gradients go over eno1 (1 Gbit/s), as Slurm reaches the nodes; ib0 (200 "
                        "Gbit/s) is up"));
  EXPECT_EQ(line("10.2.0.7"), "");
}

TEST_F(LinkSpeed, ThatIsNotKnownOrNotMuchFaster_IsNoReasonForALine) {
  EXPECT_EQ(line("10.0.0.7"), "") << "a virtual machine says nothing";
  ethernet("eno1", -1);
  ethernet("eno2", 10000);
  EXPECT_EQ(line("10.0.0.7"), "");
  ethernet("eno1", 5000);
  EXPECT_EQ(line("10.0.0.7"), "");
  EXPECT_EQ(line("127.0.0.1"), "");
  EXPECT_EQ(line("10.9.9.9"), "");
}

}  // namespace
}  // namespace rekindle
