#include "trainer/background_writer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "../temporary_directory.hpp"
#include "base/channel.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"
#include "trainer/socket_link.hpp"

namespace rekindle::trainer {
namespace {

namespace fs = std::filesystem;
using protocol::FromTrainer;

class BackgroundWriterTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = std::size_t{24} << 20, kPage = 4096;

  BackgroundWriterTest() : memory_(kBytes + kPage) {
    void* begin = memory_.data();
    std::size_t room = memory_.size();
    bytes_ = {static_cast<std::byte*>(std::align(kPage, kBytes, begin, room)), kBytes};
    for (const char* run : {"run", "expected"}) fs::create_directories(directory_ / run);
    auto ends = Channel::pair();
    EXPECT_TRUE(ends);
    worker_.emplace(std::move(ends->first));
    link_.emplace(std::move(ends->second), "t");
    writer_.emplace(*link_, run_dir());
    fill(1);
  }
  ~BackgroundWriterTest() override {
    writer_.reset();
    link_.reset();
  }

  fs::path run_dir() const { return directory_ / "run"; }
  void fill(std::uint32_t seed) {
    for (std::size_t i = 0; i + 4 <= bytes_.size(); i += 4) {
      const std::uint32_t word = seed * 2654435761U + static_cast<std::uint32_t>(i) * 40503U;
      std::memcpy(bytes_.data() + i, &word, sizeof word);
    }
  }
  checkpoint::State state() {
    checkpoint::TensorSpec spec;
    spec.name = "weight";
    spec.shape = {static_cast<std::int64_t>(bytes_.size() / 4 / 64), 64};
    return {{spec, bytes_}};
  }
  static std::vector<std::byte> shard(const fs::path& run_dir, int half) {
    return read_file(checkpoint::directory_of(run_dir, {7, 1, 2}) / str("shard-0000", half, "-of-00002.h5"))
        .value();
  }
  Arenas arenas() const { return {bytes_}; }
  // Updates the state like a step.
  void update() {
    constexpr std::size_t kPiece = 100000;
    writer_->release_to_update(7);
    for (std::size_t first = 0; first < kBytes; first += kPiece) {
      const std::size_t count = std::min(kPiece, kBytes - first);
      writer_->before_change(first, count);
      std::ranges::fill(bytes_.subspan(first, count), std::byte{2});
    }
  }
  // No message reports the end of the write: the next message comes after the second check. CTest limits the
  // time.
  void await_file() const {
    while (writer_->busy()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Returns the next message, without heartbeats.
  FromTrainer received() {
    for (;;) {
      const auto text = worker_->receive();
      if (!text || !*text) throw std::runtime_error("the trainer hung up");
      auto message = protocol::decode<FromTrainer>(**text);
      if (!message) throw std::runtime_error(message.error().line());
      if (!std::holds_alternative<protocol::TrainerBeat>(*message)) return *message;
    }
  }

  TemporaryDirectory temporary_;
  const fs::path directory_ = temporary_.path();
  std::vector<std::byte> memory_;
  std::span<std::byte> bytes_;  // the bytes of the state, from which storage can read
  std::optional<Channel> worker_;
  std::optional<SocketLink> link_;
  std::optional<BackgroundWriter> writer_;
};

// The state of the shard when the update begins: just begun, or written.
TEST_F(BackgroundWriterTest, StateThatChangesAfterItsRelease_IsWrittenAsItWas) {
  const checkpoint::CheckpointId id{7, 1, 2};
  for (int half = 0; half < 2; ++half)
    ASSERT_TRUE(checkpoint::write_shard(directory_ / "expected", id, state(), hash_chunks(state()), 2, half));
  for (const bool in_arenas : {false, true}) {
    for (const bool written : {false, true}) {
      for (int half = 0; half < 2; ++half) {
        SCOPED_TRACE(str("in arenas: ", in_arenas, ", written: ", written, ", half: ", half));
        fill(1);
        writer_->begin({{1, 2}, 7, 2, half}, state(), hash_chunks(state()), in_arenas ? arenas() : Arenas(),
                       false);
        if (written) await_file();
        EXPECT_EQ(writer_->checks(), in_arenas);
        update();
        EXPECT_FALSE(writer_->checks());
        writer_->finish();
        EXPECT_FALSE(writer_->busy());
        EXPECT_TRUE(std::holds_alternative<protocol::ShardBegun>(received()));
        const FromTrainer last = received();
        ASSERT_TRUE(std::holds_alternative<protocol::ShardWritten>(last));
        EXPECT_EQ(std::get<protocol::ShardWritten>(last).rank, half);
        EXPECT_EQ(shard(run_dir(), half), shard(directory_ / "expected", half));
      }
    }
  }
}

TEST_F(BackgroundWriterTest, AnotherThatBeginsMeanwhile_WaitsForTheFirst) {
  for (const std::uint64_t step : {7, 8})
    writer_->begin({{1, 2}, step, 1, 0}, state(), hash_chunks(state()), arenas(), false);
  writer_->finish();
  for (const std::uint64_t step : {7, 8}) {
    EXPECT_EQ(std::get<protocol::ShardBegun>(received()).step, step);
    EXPECT_EQ(std::get<protocol::ShardWritten>(received()).step, step);
  }
}

TEST_F(BackgroundWriterTest, StateThatNoUpdateChanges_IsWrittenAllTheSame) {
  enum class Then { kFinished, kNoneExpected, kNoneComes };
  for (const Then then : {Then::kFinished, Then::kNoneExpected, Then::kNoneComes}) {
    writer_->begin({{1, 2}, 7, 1, 0}, state(), hash_chunks(state()), arenas(), false);
    if (then == Then::kFinished) writer_->finish();
    if (then == Then::kNoneExpected) writer_->expect_no_update();
    EXPECT_TRUE(std::holds_alternative<protocol::ShardBegun>(received()));
    EXPECT_TRUE(std::holds_alternative<protocol::ShardWritten>(received()));
  }
}

TEST_F(BackgroundWriterTest, StateThatIsNotWhatWasHashed_IsReportedAndNotWritten) {
  const checkpoint::ChunkHashes chunks = hash_chunks(state());
  for (const bool updated : {false, true}) {
    for (std::byte* changed : {bytes_.data(), &bytes_[kBytes / 2], &bytes_.back()}) {
      fill(1);
      writer_->begin({{1, 2}, 7, 1, 0}, state(), chunks, arenas(), false);
      await_file();
      *changed ^= std::byte{1};
      if (updated) {
        update();
      } else {
        writer_->release(7);
      }
      EXPECT_TRUE(std::holds_alternative<protocol::ShardBegun>(received()));
      const FromTrainer last = received();
      ASSERT_TRUE(std::holds_alternative<protocol::ShardFailed>(last));
      EXPECT_TRUE(std::get<protocol::ShardFailed>(last).changed);
      EXPECT_TRUE(fs::is_empty(checkpoint::directory_of(run_dir(), {7, 1, 2}).path()));
    }
  }
}

// The write fails before or after the check during the update. In both cases the state must not be committed.
TEST_F(BackgroundWriterTest, StateThatIsNotWhatWasHashed_IsReportedThoughTheWriteFails) {
  ASSERT_TRUE(make_directories(run_dir()));
  ASSERT_TRUE(replace_file(run_dir() / "checkpoints", "in the way"));
  checkpoint::ChunkHashes chunks = hash_chunks(state());
  chunks.back().low ^= 1;
  for (const bool writes_first : {false, true}) {
    writer_->begin({{1, 2}, 7, 1, 0}, state(), chunks, arenas(), false);
    if (writes_first) await_file();
    update();
    EXPECT_TRUE(std::holds_alternative<protocol::ShardBegun>(received()));
    bool changed = false;
    for (int messages = 0; messages < 2 && !changed; ++messages)
      changed = std::get<protocol::ShardFailed>(received()).changed;
    EXPECT_TRUE(changed);
    fill(1);
  }
}

TEST_F(BackgroundWriterTest, ShardThatCannotBeWritten_ReportedAndTheStateIsFree) {
  ASSERT_TRUE(make_directories(run_dir()));
  ASSERT_TRUE(replace_file(run_dir() / "checkpoints", "in the way"));
  writer_->begin({{1, 2}, 7, 1, 0}, state(), hash_chunks(state()), arenas(), true);
  writer_->release(7);
  writer_->finish();
  const FromTrainer first = received();
  ASSERT_TRUE(std::holds_alternative<protocol::ShardBegun>(first));
  EXPECT_TRUE(std::get<protocol::ShardBegun>(first).parks);
  EXPECT_TRUE(std::holds_alternative<protocol::ShardFailed>(received()));
}

// The coordinator kills a writer whose blocks are no longer written.
TEST_F(BackgroundWriterTest, EachBlockThatIsWritten_CountsInTheHeartbeats) {
  constexpr std::size_t kBlockBytes = std::size_t{2} << 20;
  writer_->begin({{1, 2}, 7, 1, 0}, state(), hash_chunks(state()), arenas(), true);
  writer_->finish();
  std::uint64_t blocks = 0;
  for (int messages = 0; messages < 1000 && blocks < kBytes / kBlockBytes; ++messages) {
    const auto text = worker_->receive();
    ASSERT_TRUE(text && *text);
    const auto message = protocol::decode<FromTrainer>(**text);
    ASSERT_TRUE(message) << message.error().line();
    if (const auto* const beat = std::get_if<protocol::TrainerBeat>(&*message)) blocks = beat->blocks_written;
  }
  EXPECT_GE(blocks, kBytes / kBlockBytes);
}

}  // namespace
}  // namespace rekindle::trainer
