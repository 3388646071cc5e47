#include "checkpoint/read_ahead.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

// A tensor of 32 MiB that begins at a page border.
class ReadAheadTest : public testing::Test {
 protected:
  ReadAheadTest() {
    auto laid_out = lay_out({{"weight", Dtype::kFloat32, {8, 1 << 20}, {}}}, {});
    if (!laid_out) throw std::runtime_error(laid_out.error().line());
    layout_ = std::move(*laid_out);
    pieces_.push_back({layout_.offsets.at(0), owned_.state[0].bytes});
  }
  // Returns how many blocks were lent. The tensor must equal the file.
  int use_all(const Reading& reading, const std::function<void(ReadAhead&, std::uint64_t begin)>& before) {
    int lent = 0;
    std::vector<std::byte> file;
    ReadAhead ahead(layout_, pieces_, reading);
    for (std::uint64_t begin = 0; begin < ahead.bytes();) {
      before(ahead, begin);
      auto block = ahead.next();
      if (!block) throw std::runtime_error(block.error().line());
      EXPECT_EQ(block->begin, begin);
      begin += block->bytes.size();
      lent += block->buffer ? 0 : 1;
      std::ranges::copy(block->bytes, std::back_inserter(file));
      ahead.recycle(std::move(*block));
    }
    const Piece& piece = pieces_[0];
    EXPECT_TRUE(std::ranges::equal(std::span(file).subspan(piece.offset, piece.bytes.size()), piece.bytes));
    return lent;
  }

  OwnedState owned_{{{"weight", Dtype::kFloat32, {8, 1 << 20}, Role::kParameter}}};
  Layout layout_;
  std::vector<Piece> pieces_;
  const std::function<bool()> alike_ = [] { return true; };
};

TEST_F(ReadAheadTest, ATensorThatLiesAsStorageWantsIt_IsLent) {
  EXPECT_EQ(use_all({{}, {}, alike_}, [](ReadAhead&, std::uint64_t) {}), 8);
  EXPECT_EQ(use_all({}, [](ReadAhead&, std::uint64_t) {}), 0) << "nobody looks at it later";
}

TEST_F(ReadAheadTest, SlowStorage_GetsCopies) {
  const auto after_8_mib = [](ReadAhead& ahead, std::uint64_t begin) {
    if (begin >= 8 << 20) ahead.lend_no_more();
  };
  EXPECT_LE(use_all({{}, {}, alike_}, after_8_mib), 5) << "two of them may have been lent before";
}

TEST_F(ReadAheadTest, WhoeverHurries_GetsTheRestCopied) {
  std::stop_source hurry;
  const auto after_8_mib = [&hurry](ReadAhead&, std::uint64_t begin) {
    if (begin >= 8 << 20) hurry.request_stop();
  };
  EXPECT_LE(use_all({{}, hurry.get_token(), alike_}, after_8_mib), 5);
}

}  // namespace
}  // namespace rekindle::checkpoint
