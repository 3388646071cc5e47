#include "trainer/replica_state.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "exchange/exchange.hpp"
#include "fake_link.hpp"
#include "toy_task.hpp"

namespace rekindle::trainer {
namespace {

struct LostDevice : ToyTask {
  Status download() override { return fail("the device is lost"); }
};

struct NoExchange : exchange::Exchange {
  Status connect() override { return never(); }
  Result<exchange::Reduced> reduce(const exchange::StepHeader&) override { return never_have(); }
  bool slot_0_overwritten() const override { return false; }
  bool sums_unchanged() const override { return true; }
  Status release() override { return never(); }
  Result<std::vector<exchange::StepHeader>> gather(const exchange::StepHeader&) override {
    return never_have();
  }
  Status all_gather(exchange::RankPieces, const std::vector<bool>&) override { return never(); }
  void abort() noexcept override {}
  int waiting_for() const noexcept override { return -1; }
  std::uint64_t activity() const noexcept override { return 0; }
  exchange::Backend backend() const override { return exchange::Backend::kSharedMemory; }

  static Status never() { return never_have(); }
  static tl::unexpected<Error> never_have() {
    ADD_FAILURE() << "the exchange was used";
    return fail("used");
  }
};

// A pause in its place would be followed by the same generation at once, for ever.
TEST(ReplicaState, ASourceWhoseDeviceIsLost_IsAnErrorOfTheTask) {
  LostDevice task;
  NoExchange never_used;
  protocol::ReplicaState replica{true, 7};
  protocol::Start start;
  start.members = std::vector<protocol::Member>{{"a", {}}, {"b", {}}};
  start.sources = {0};
  const auto compared = copy(task, never_used, start, replica);
  ASSERT_FALSE(compared);
  EXPECT_EQ(compared.error().kind, ErrorKind::kTask);
  EXPECT_TRUE(replica.valid);
}

// A checkpoint of ten blocks. The generation is aborted while the third one is read.
struct SlowStorage : Storage {
  explicit SlowStorage(FakeLink& link) : link_(link) {}
  bool has_checkpoint() override { return true; }
  Status load_initial(const checkpoint::State&) override { return {}; }
  Result<checkpoint::Manifest> read_manifest(const std::string&) override {
    checkpoint::Manifest manifest;
    manifest.contents.tensors = checkpoint::spec_of(ToyTask().state());
    return manifest;
  }
  Status read_part(const std::string&, const checkpoint::Manifest&, int, int, const checkpoint::State&,
                   const std::function<Status()>& each_block) override {
    for (int block = 0; block < 10; ++block) {
      REKINDLE_CHECK(each_block());
      ++read_;
      link_.aborted_ = block == 2;
    }
    return {};
  }

  FakeLink& link_;
  int read_ = 0;
};

// Without progress the coordinator takes the trainer for one that hangs, and kills one that does not notice
// an abort.
TEST(ReplicaState, ARestoreFromSlowStorage_EachBlockIsProgressAndAnAbortEndsIt) {
  ToyTask task;
  NoExchange never_used;
  FakeLink link;
  SlowStorage storage(link);
  protocol::Start start;
  start.restore = "step-7";
  start.members = std::vector<protocol::Member>{{"a", {}}, {"b", {}}};
  const auto restored = restore(task, never_used, storage, link, start);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::kAborted);
  EXPECT_EQ(storage.read_, 3);
  EXPECT_EQ(link.progress_, 4);
}

TEST(ReplicaState, AnAbortedComputation_IsNoErrorOfTheTask) {
  EXPECT_EQ(task_error({ExitCode::kGaveUp, "", "", ErrorKind::kAborted}).value().kind, ErrorKind::kAborted);
  EXPECT_EQ(task_error({ExitCode::kConfig, "", "", ErrorKind::kSystem}).value().kind, ErrorKind::kTask);
  EXPECT_TRUE(of_task({}));
}

}  // namespace
}  // namespace rekindle::trainer
