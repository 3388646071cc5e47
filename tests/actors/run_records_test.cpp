// What a commit does to the files of a run, and what it must leave alone.
#include "actors/run_records.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "../checkpoint/fixture.hpp"
#include "run/terms.hpp"

namespace rekindle::actors {
namespace {

using checkpoint::CheckpointId;

class RunRecordsTest : public checkpoint::CheckpointTest {
 protected:
  RunRecordsTest() {
    job_.keep = 1;
    job_.keep_best = true;
    job_.steps = 100;
  }
  void evaluate(std::uint64_t step, double accuracy) {
    std::ofstream(layout_.metrics(), std::ios::app)
        << R"({"step":)" << step << R"(,"test_loss":1.0,"test_accuracy":)" << accuracy << "}\n";
  }
  // Shards as trainers write them, and the order that follows.
  CommitReply commit_step(std::uint64_t step, std::vector<std::string> spared = {}) {
    const checkpoint::Manifest manifest = checkpoint::write_shards(run_dir, {step, 1, 1}, owned_.state, 2);
    CommitOrder order{1, 1, 1, step, manifest.digest, "{}", to_json(manifest.contents), {}, spared};
    for (const checkpoint::ShardEntry& shard : manifest.shards) order.shards.push_back(to_json(shard));
    return commit(layout_, job_, order);
  }
  std::vector<std::uint64_t> committed() const {
    std::vector<std::uint64_t> steps;
    for (const CheckpointId& id : checkpoint::list_committed(run_dir)) steps.push_back(id.step);
    return steps;
  }

  run::Layout layout_{run_dir};
  protocol::Job job_;
  checkpoint::OwnedState owned_{checkpoint::small_spec()};
};
using Steps = std::vector<std::uint64_t>;

TEST_F(RunRecordsTest, Commit_TellsWhatIsThereAfterTheSweep) {
  commit_step(10);
  evaluate(10, 0.9);
  commit_step(20);
  const CommitReply reply = commit_step(30);
  EXPECT_EQ(committed(), (Steps{30, 10}));
  EXPECT_EQ(reply.committed, (std::vector<std::string>{"step-0000000030.t1.g1", "step-0000000010.t1.g1"}));
  commit_step(40, {"step-0000000030.t1.g1"});
  EXPECT_EQ(committed(), (Steps{40, 30, 10}));
}

TEST_F(RunRecordsTest, EvaluationsThatCannotBeRead_NothingIsRemoved) {
  commit_step(10);
  evaluate(10, 0.9);
  std::filesystem::rename(layout_.metrics(), run_dir / "away");
  std::filesystem::create_directory(layout_.metrics());  // opens, and cannot be read
  const CommitReply reply = commit_step(20);
  EXPECT_EQ(reply.error, "");
  EXPECT_TRUE(reply.committed.empty());
  EXPECT_EQ(committed(), (Steps{20, 10}));
}

TEST_F(RunRecordsTest, TakenOverWhileItCommitted_SweepsNothing) {
  job_.keep = 3;
  commit_step(10);
  commit_step(20);
  job_.keep = 1;
  std::filesystem::create_directories(layout_.terms());
  const auto claimed = run::claim_term(layout_, {}, [](const run::Holder&) { return false; });
  ASSERT_TRUE(claimed) << claimed.error().line();
  CommitOrder order;
  order.own_term = *claimed - 1;
  order.term = order.generation = 1;
  order.step = 20;
  CommitReply reply;
  EXPECT_FALSE(sweep(layout_, job_, order, reply));
  EXPECT_EQ(reply.higher_term, *claimed);
  EXPECT_EQ(committed(), (Steps{20, 10}));
}

}  // namespace
}  // namespace rekindle::actors
