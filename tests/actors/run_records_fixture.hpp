// A run directory with a claimed term and checkpoints of a small state.
#pragma once

#include <gtest/gtest.h>

#include <fstream>

#include "../checkpoint/fixture.hpp"
#include "actors/commits.hpp"
#include "actors/run_records.hpp"
#include "actors/run_status.hpp"
#include "actors/survey.hpp"
#include "run/terms.hpp"

namespace rekindle::actors {

using checkpoint::CheckpointId;

class RunRecordsTest : public checkpoint::CheckpointTest {
 protected:
  RunRecordsTest() {
    job_.keep = 1;
    job_.keep_best = true;
    job_.steps = 100;
    std::filesystem::create_directories(layout_.terms().path());
    EXPECT_EQ(claim(), 1U);
  }
  std::uint64_t claim() const {
    return run::claim_term(layout_, {.patience = {}, .answers = [](const run::Holder&) { return false; }})
        .value_or(0);
  }
  // Another run was started in this run's directory.
  void replace_claim() const {
    std::ofstream((layout_.terms() / "0001").path()) << R"({"host":"elsewhere","boot_id":"other","pid":1})";
  }
  void evaluate(std::uint64_t step, double accuracy) {
    std::ofstream(layout_.metrics().path(), std::ios::app)
        << R"({"step":)" << step << R"(,"test_loss":1.0,"test_accuracy":)" << accuracy << "}\n";
  }
  // Writes shards like trainers, and then sends the commit order.
  CommitReply commit_step(std::uint64_t step, const std::vector<std::string>& pinned = {}) {
    const checkpoint::Manifest manifest = checkpoint::write_shards(run_dir, {step, 1, 1}, owned_.state, 2);
    CommitOrder order{1, 1, 1, step, manifest.digest, "{}", to_json(manifest.contents), {}, pinned};
    for (const checkpoint::ShardEntry& shard : manifest.shards) order.shards.push_back(to_json(shard));
    return commit(layout_, job_, order);
  }
  std::vector<std::uint64_t> committed() const {
    std::vector<std::uint64_t> steps;
    for (const CheckpointId& id : checkpoint::list_committed(run_dir)) steps.push_back(id.step);
    return steps;
  }

  run::Layout layout_{run_dir};
  RecordWriter writer_{layout_, 1};
  protocol::Job job_;
  checkpoint::OwnedState owned_{checkpoint::small_spec()};
};
using Steps = std::vector<std::uint64_t>;

}  // namespace rekindle::actors
