#include "checkpoint/block_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stop_token>
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

TEST_F(BlockQueueTest, LentBlocksAreUsedWhereTheyLieAndWaitedFor) {
  std::thread lends([&] {
    for (std::size_t begin = 0; begin < memory_.size(); begin += 1 << 20) lend(begin, 1 << 20);
    queue_.take_back();
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

TEST_F(BlockQueueTest, WhoeverHurries_IsLentNoMore) {
  std::stop_source hurry;
  lend(0, 4096);
  lend(4096, 4096);
  std::thread hurries([&] { hurry.request_stop(); });
  EXPECT_FALSE(queue_.may_lend(hurry.get_token()));  // two are lent already
  hurries.join();
  queue_.recycle(next());
  EXPECT_FALSE(queue_.may_lend(hurry.get_token()));
}

TEST_F(BlockQueueTest, WhoeverGivesUp_IsNotWaitedFor) {
  lend(0, 4096);
  queue_.give_up();
  queue_.take_back();
  EXPECT_FALSE(queue_.may_lend({}));
}

}  // namespace
}  // namespace rekindle::checkpoint
