// Which workers a coordinator refuses.
#include "protocol/admission.hpp"

#include <gtest/gtest.h>

namespace rekindle::protocol {
namespace {

Registration worker_of(const std::string& build, std::uint64_t directory_inode) {
  Registration worker;
  worker.build = build;
  worker.directory_inode = directory_inode;
  return worker;
}

TEST(Admission, AnotherBuild_IsRefused) {
  EXPECT_EQ(refusal_of(worker_of("a", 0), "a", 0), "");
  EXPECT_EQ(refusal_of(worker_of("b", 0), "a", 0), "another build of rekindle: use one for all nodes");
}

TEST(Admission, AnotherDirectory_IsRefusedIfBothAreKnown) {
  EXPECT_EQ(refusal_of(worker_of("a", 7), "a", 7), "");
  EXPECT_EQ(refusal_of(worker_of("a", 7), "a", 0), "");
  EXPECT_EQ(refusal_of(worker_of("a", 0), "a", 7), "");
  EXPECT_NE(refusal_of(worker_of("a", 8), "a", 7).find("shared directory"), std::string::npos);
}

}  // namespace
}  // namespace rekindle::protocol
