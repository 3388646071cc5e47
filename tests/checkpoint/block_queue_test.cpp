#include "checkpoint/block_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace rekindle::checkpoint {
namespace {

class BlockQueueTest : public testing::Test {
 protected:
  BlockQueueTest() : memory_(12 << 20) {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      memory_[i] = static_cast<std::byte>(i * 2654435761U >> 24);
    before_ = memory_;
  }
  void lend(std::size_t begin, std::size_t size) {
    ASSERT_TRUE(queue_.may_lend({}));
    queue_.put({begin, std::span(memory_).subspan(begin, size), std::nullopt});
  }
  Block next() {
    auto block = queue_.next();
    if (!block) throw std::runtime_error(block.error().line());
    return std::move(*block);
  }
  bool is_as_before(const Block& block) const {
    return std::ranges::equal(block.bytes, std::span(before_).subspan(block.begin, block.bytes.size()));
  }

  std::vector<std::byte> memory_, before_;
  BlockQueue queue_;
};

// What is in use cannot be taken back; it is the only one that is waited for.
TEST_F(BlockQueueTest, OnceSomebodyHurries_LentBlocksThatWaitAreCopied) {
  constexpr std::size_t kFirst = 5 << 20, kSecond = (3 << 20) + 4096, kThird = 4096;
  lend(0, kFirst);
  lend(kFirst, kSecond);
  lend(kFirst + kSecond, kThird);
  Block used = next();
  EXPECT_FALSE(used.buffer);
  EXPECT_EQ(used.bytes.data(), memory_.data());

  std::stop_source hurry;
  hurry.request_stop();
  EXPECT_FALSE(queue_.may_lend(hurry.get_token()));
  std::atomic<bool> recycled = false, early = false;
  std::thread takes_back([&] {
    queue_.take_back(hurry.get_token());
    early = !recycled;
    std::ranges::fill(memory_, std::byte{0});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a queue that does not wait is found out
  EXPECT_TRUE(is_as_before(used));
  recycled = true;
  queue_.recycle(std::move(used));
  takes_back.join();
  EXPECT_FALSE(early);

  std::uint64_t begin = kFirst;
  while (begin < kFirst + kSecond + kThird) {
    Block copy = next();
    EXPECT_TRUE(copy.buffer);
    EXPECT_EQ(copy.begin, begin);
    EXPECT_LE(copy.bytes.size(), kBlockBytes);
    EXPECT_TRUE(is_as_before(copy)) << begin;
    begin += copy.bytes.size();
    queue_.recycle(std::move(copy));
  }
  EXPECT_EQ(begin, kFirst + kSecond + kThird);
}

TEST_F(BlockQueueTest, WhileNobodyHurries_LentBlocksAreUsedWhereTheyLie) {
  std::thread lends([&] {
    for (std::size_t begin = 0; begin < memory_.size(); begin += 1 << 20) lend(begin, 1 << 20);
    queue_.take_back({});
    std::ranges::fill(memory_, std::byte{0});
  });
  for (std::size_t begin = 0; begin < memory_.size(); begin += 1 << 20) {
    Block block = next();
    EXPECT_FALSE(block.buffer);
    EXPECT_TRUE(is_as_before(block));
    queue_.recycle(std::move(block));
  }
  lends.join();
}

TEST_F(BlockQueueTest, WhoeverGivesUp_IsNotWaitedFor) {
  lend(0, 4096);
  queue_.give_up();
  queue_.take_back({});
  EXPECT_FALSE(queue_.may_lend({}));
}

}  // namespace
}  // namespace rekindle::checkpoint
