#include "trainer/checkpoint_writer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "base/channel.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "protocol/wire.hpp"

namespace rekindle::trainer {
namespace {

namespace fs = std::filesystem;
using protocol::FromTrainer;

class CheckpointWriterTest : public ::testing::Test {
 protected:
  CheckpointWriterTest()
      : directory_(fs::temp_directory_path() / str("rekindle-writer-", ::getpid())),
        bytes_(std::size_t{24} << 20) {
    fs::create_directories(directory_);
    auto ends = Channel::pair();
    EXPECT_TRUE(ends);
    worker_.emplace(std::move(ends->first));
    link_.emplace(std::move(ends->second), "t");
    writer_.emplace(*link_, run_dir());
    fill(1);
  }
  ~CheckpointWriterTest() override {
    writer_.reset();
    link_.reset();
    fs::remove_all(directory_);
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
  // What it says next, heartbeats left out.
  FromTrainer heard() {
    for (;;) {
      const auto text = worker_->receive();
      if (!text || !*text) throw std::runtime_error("the trainer hung up");
      auto message = protocol::decode<FromTrainer>(**text);
      if (!message) throw std::runtime_error(message.error().line());
      if (!std::holds_alternative<protocol::TrainerBeat>(*message)) return *message;
    }
  }

  fs::path directory_;
  std::vector<std::byte> bytes_;
  std::optional<Channel> worker_;
  std::optional<Link> link_;
  std::optional<CheckpointWriter> writer_;
};

TEST_F(CheckpointWriterTest, StateThatChangesAfterItsRelease_IsWrittenAsItWas) {
  const checkpoint::CheckpointId id{7, 1, 2};
  for (int half = 0; half < 2; ++half)
    ASSERT_TRUE(checkpoint::write_shard(directory_ / "expected", id, state(), hash_chunks(state()), 2, half));
  for (int half = 0; half < 2; ++half) {
    fill(1);
    writer_->begin({{1, 2}, 7, 2, half}, state(), hash_chunks(state()), false);
    writer_->release(7);
    fill(2);
    writer_->finish();
    EXPECT_FALSE(writer_->busy());
    EXPECT_TRUE(std::holds_alternative<protocol::ShardBegun>(heard()));
    const FromTrainer last = heard();
    ASSERT_TRUE(std::holds_alternative<protocol::ShardWritten>(last));
    EXPECT_EQ(std::get<protocol::ShardWritten>(last).rank, half);
    const std::string file = str("shard-0000", half, "-of-00002.h5");
    const auto written = read_file(checkpoint::directory_of(run_dir(), id) / file);
    const auto expected = read_file(checkpoint::directory_of(directory_ / "expected", id) / file);
    ASSERT_TRUE(written && expected);
    EXPECT_EQ(*written, *expected);
  }
}

TEST_F(CheckpointWriterTest, ShardThatCannotBeWritten_SaidAndTheStateIsFree) {
  ASSERT_TRUE(make_directories(run_dir()));
  ASSERT_TRUE(replace_file(run_dir() / "checkpoints", "in the way"));
  writer_->begin({{1, 2}, 7, 1, 0}, state(), hash_chunks(state()), true);
  writer_->release(7);
  writer_->finish();
  const FromTrainer first = heard();
  ASSERT_TRUE(std::holds_alternative<protocol::ShardBegun>(first));
  EXPECT_TRUE(std::get<protocol::ShardBegun>(first).parks);
  EXPECT_TRUE(std::holds_alternative<protocol::ShardFailed>(heard()));
}

}  // namespace
}  // namespace rekindle::trainer
