#include "exchange/nccl_api.hpp"

#include "nccl_fixture.hpp"

namespace rekindle::exchange::testing {
namespace {

using NcclLibrary = NcclStandIn;

TEST_F(NcclLibrary, AVersionWithRevoke_HasIt_AndAnOlderOneHasNot) {
  EXPECT_EQ(api.version, nccl_version(2, 28, 9));
  EXPECT_NE(api.revoke, nullptr);
  set("VERSION", "22806");
  const auto older = load_nccl(REKINDLE_NCCL_STAND_IN);
  ASSERT_TRUE(older) << older.error().line();
  EXPECT_EQ(older->revoke, nullptr);
}

TEST_F(NcclLibrary, TooOldOrNotThere_OneLineThatSaysWhatToDo) {
  set("VERSION", "21705");
  const auto old = load_nccl(REKINDLE_NCCL_STAND_IN);
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().line(),
            "NCCL 2.17.5 is too old: 2.18 is needed; --exchange auto goes through the host's memory");
  EXPECT_EQ(old.error().code, ExitCode::kConfig);
  const auto none = load_nccl("/nowhere/libnccl.so.2");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().line().find("/nowhere/libnccl.so.2 is not there"), std::string::npos);
  const auto other = load_nccl("libc.so.6");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().line().find("libc.so.6 is no NCCL"), std::string::npos);
  EXPECT_FALSE(load_nccl()) << "no libtorch_cuda has loaded one here";
}

}  // namespace
}  // namespace rekindle::exchange::testing
