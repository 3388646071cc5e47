#include "run/page_place.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"

namespace rekindle::run {
namespace {

// Of a server that has this pid and is otherwise of this process's kind.
nlohmann::json written(pid_t pid) {
  nlohmann::json place = nlohmann::json::parse(own_page_place("127.0.0.1", 8080));
  place["pid"] = pid;
  return place;
}

bool is_gone(const nlohmann::json& place) {
  const auto read = read_page_place(place.dump(), "page.json");
  EXPECT_TRUE(read) << place;
  return read && server_gone(*read);
}

constexpr pid_t kNobody = INT_MAX;  // above the kernel's largest pid: proc(5), pid_max

TEST(PagePlace, IsReadAsItWasWritten) {
  const auto place = read_page_place(own_page_place("10.0.0.7", 8080), "page.json");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->server.host, host_name());
  EXPECT_EQ(place->server.pid, ::getpid());
  EXPECT_EQ(place->address, "10.0.0.7");
  EXPECT_EQ(place->port, 8080U);
  EXPECT_FALSE(read_page_place(R"({"port":"8080"})", "page.json"));
}

TEST(PagePlace, OfADeadProcess_IsGone) {
  EXPECT_FALSE(is_gone(written(::getpid())));
  EXPECT_TRUE(is_gone(written(kNobody)));
}

// The containers of a pod have one host name, and do not see each other's processes.
TEST(PagePlace, OfAnotherContainerOfThisHost_IsNotGone) {
  nlohmann::json place = written(kNobody);
  place["pid_namespace"] = "pid:[1]";
  EXPECT_FALSE(is_gone(place));
  place = written(kNobody);
  place["host"] = "another name";
  EXPECT_FALSE(is_gone(place));
}

TEST(PagePlace, OfAnEarlierVersion_IsJudgedByTheHostsName) {
  nlohmann::json place = written(kNobody);
  place.erase("boot_id");
  place.erase("pid_namespace");
  EXPECT_TRUE(is_gone(place));
  place["pid"] = ::getpid();
  EXPECT_FALSE(is_gone(place));
}

}  // namespace
}  // namespace rekindle::run
