// The stand-in for NCCL, and its settings for one test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "exchange/nccl_api.hpp"

namespace rekindle::exchange::testing {

class NcclStandIn : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"VERSION", "SLOW_INIT_MS", "SLOW_TAKE_MS", "STUCK", "FAIL", "DEAD_PEER", "PEERS"})
      unset(name);
    auto loaded = load_nccl(REKINDLE_NCCL_STAND_IN);
    ASSERT_TRUE(loaded) << loaded.error().line();
    api = *loaded;
  }
  void TearDown() override { SetUp(); }
  static void set(const std::string& name, const std::string& value) {
    ::setenv(("NCCL_STAND_IN_" + name).c_str(), value.c_str(), 1);
  }
  static void unset(const std::string& name) { ::unsetenv(("NCCL_STAND_IN_" + name).c_str()); }
  NcclId fresh_id() const {
    NcclId id;
    EXPECT_EQ(api.get_unique_id(&id), NcclCode::kSuccess);
    return id;
  }

  NcclApi api;
};

}  // namespace rekindle::exchange::testing
