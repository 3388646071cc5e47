#include "board/turns.hpp"

#include <gmock/gmock.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <string>

namespace rekindle::board {
namespace {

class TurnsTest : public testing::Test {
 protected:
  // Work of so many parts, each of which adds the name to what was done.
  Turn work(char name, int parts) {
    return [this, name, parts]() mutable {
      done_ += name;
      return --parts == 0;
    };
  }
  boost::asio::io_context thread_;
  std::string done_;
};

TEST_F(TurnsTest, EachHasOnePartInARound) {
  take_turns(thread_.get_executor(), {work('a', 3), work('b', 1), work('c', 2)}, [&] { done_ += '.'; });
  thread_.run();
  EXPECT_EQ(done_, "abcaca.");
}

TEST_F(TurnsTest, OthersWaitForOnePartOnly) {
  take_turns(thread_.get_executor(), {work('a', 100), work('b', 100)}, [] {});
  while (done_.empty()) thread_.run_one();
  boost::asio::post(thread_, [&] { done_ += '!'; });
  while (done_.back() != '!') thread_.run_one();
  EXPECT_EQ(done_, "ab!") << "the part that was posted before it, and no more";
}

TEST_F(TurnsTest, NoWork_IsDoneAtOnce) {
  take_turns(thread_.get_executor(), {}, [&] { done_ += '.'; });
  thread_.run();
  EXPECT_EQ(done_, ".");
}

}  // namespace
}  // namespace rekindle::board
