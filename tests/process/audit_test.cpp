// `rekindle audit` on real runs: repeats a part of the training.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <set>

#include "base/files.hpp"
#include "checkpoint/checkpoint.hpp"
#include "harness.hpp"
#include "planted_checkpoint.hpp"

namespace rekindle::process_test {
namespace {

using checkpoint::CheckpointId;

class Audit : public ::testing::Test {
 protected:
  // Checkpoints of steps 10, 20 and 30. The last one of a run is always written; another one may wait while a
  // checkpoint is being written.
  void train(const Arguments& more = {}, const std::vector<int>& ends = {10, 20, 30}) {
    for (const int steps : ends) {
      const Outcome outcome = run(mnist_run(dir(), 2, steps) + Arguments{"--keep", "10"} + more);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    }
  }
  fs::path dir() const { return scratch_ / "run"; }
  Outcome audit(int from, int to, int workers) const {
    return run({"audit", dir(), "--from", std::to_string(from), "--to", std::to_string(to), "--workers",
                std::to_string(workers)});
  }
  // The directory of an audit, as soon as it contains `file`.
  fs::path audit_with(const fs::path& file) const {
    fs::path found;
    EXPECT_TRUE(eventually([&] {
      const auto names = names_in(dir()).value();
      for (const std::string& name : names) {
        if (name.starts_with("audit-") && fs::exists(dir() / name / file)) found = dir() / name;
      }
      return !found.empty();
    })) << file;
    return found;
  }
  CheckpointId newest_of(std::uint64_t step) const {
    for (const CheckpointId& id : checkpoint::list_committed(dir())) {
      if (id.step == step) return id;
    }
    ADD_FAILURE() << "no checkpoint of step " << step;
    return {};
  }
  // One bit of each of these tensors is changed.
  void plant_checkpoint(std::uint64_t step, const std::set<std::string>& tensors) const {
    process_test::plant_checkpoint(dir(), newest_of(step), [&](const checkpoint::State& state) {
      std::size_t changed = 0;
      for (const checkpoint::Tensor& each : state) {
        if (!tensors.contains(each.spec.name)) continue;
        each.bytes.back() ^= std::byte{1};
        ++changed;
      }
      ASSERT_EQ(changed, tensors.size());
    });
  }
  static std::vector<std::string> paths_under(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) names.push_back(entry.path());
    std::ranges::sort(names);
    return names;
  }

  Scratch scratch_;
};

TEST_F(Audit, OfAnHonestRun_BitIdenticalWithAnyNumberOfWorkersAndTheRunIsAsItWas) {
  ASSERT_NO_FATAL_FAILURE(train());
  const auto before = paths_under(dir());
  for (const auto& [from, to, workers] : {std::tuple{10, 30, 1}, {0, 20, 3}, {20, 30, 4}}) {
    const Outcome outcome = audit(from, to, workers);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("bit-identical"), std::string::npos) << outcome.out;
  }
  EXPECT_EQ(paths_under(dir()), before);
}

TEST_F(Audit, OneBitThatNobodyTrained_FoundAndNamed) {
  ASSERT_NO_FATAL_FAILURE(train());
  ASSERT_NO_FATAL_FAILURE(plant_checkpoint(20, {"fc1.weight"}));
  const Outcome end = audit(10, 20, 1), start = audit(20, 30, 2);
  for (const Outcome& outcome : {end, start}) EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
  EXPECT_NE(end.err.find("of fc1.weight"), std::string::npos) << end.err;
  EXPECT_EQ(audit(10, 30, 2).exit_code, 0) << "around it";
}

// The tensor is not the first by name or by size.
TEST_F(Audit, OfSeveralTensorsThatDiffer_TheFirstInTheModelsOrderIsNamed) {
  ASSERT_NO_FATAL_FAILURE(train({}, {10}));
  ASSERT_NO_FATAL_FAILURE(
      plant_checkpoint(10, {"acc_delta.conv1.weight", "conv2.bias", "conv2.weight", "fc1.weight"}));
  const Outcome outcome = audit(0, 10, 1);
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("DIFFER, first in rows 0 to 63 of conv2.weight:"), std::string::npos)
      << outcome.err;
}

TEST_F(Audit, FromTheStartOfARunWithInit_BitIdenticalAndTheWeightsStay) {
  const fs::path weights = scratch_ / "weights.safetensors";
  ASSERT_EQ(run(mnist_run(scratch_ / "first", 1, 2) + Arguments{"--seed", "2"}).exit_code, 0);
  ASSERT_EQ(run({"export", scratch_ / "first", weights}).exit_code, 0);
  ASSERT_NO_FATAL_FAILURE(train({"--init", weights}));
  const auto before = paths_under(dir());
  const Outcome outcome = audit(0, 10, 1);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(paths_under(dir()), before);
}

TEST_F(Audit, OfALearningRateThatChanged_EachStepWithItsOwn) {
  ASSERT_NO_FATAL_FAILURE(train());
  ASSERT_NO_FATAL_FAILURE(train({"--lr", "0.5", "--change-lr"}, {40, 50}));
  EXPECT_EQ(audit(10, 20, 1).exit_code, 0) << "all of it with the old one";
  EXPECT_EQ(audit(30, 50, 2).exit_code, 0) << "all of it with the new one";
  for (const int from : {0, 20}) {
    const Outcome across = audit(from, 50, 1);
    EXPECT_EQ(across.exit_code, 0) << across.out << across.err;
  }
}

TEST_F(Audit, OfDamagedCheckpoints_ProvesNothing) {
  ASSERT_NO_FATAL_FAILURE(train());
  const fs::path directory = checkpoint::directory_of(dir(), newest_of(20)).path();
  const auto refused = [&](int from, int to) {
    const Outcome outcome = audit(from, to, 1);
    EXPECT_EQ(outcome.exit_code, 78) << outcome.out;
    EXPECT_NE(outcome.err.find("is damaged"), std::string::npos) << outcome.err;
  };
  const auto damage = [&](const std::string& file, int at) {
    std::fstream stream(directory / file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(at);
    stream << "other bytes";
  };
  damage("shard-00000-of-00002.h5", 1000000);
  refused(10, 20);
  refused(20, 30);
  damage("manifest.json", 1000);
  refused(10, 20);
  refused(20, 30);
  EXPECT_EQ(audit(10, 30, 1).exit_code, 0);
}

TEST_F(Audit, OfACheckpointThatIsALink_RefusedWithTheReason) {
  ASSERT_NO_FATAL_FAILURE(train());
  const fs::path manifest = (checkpoint::directory_of(dir(), newest_of(20)) / "manifest.json").path();
  fs::remove(manifest);
  fs::create_symlink("manifest.json", manifest);
  const Outcome outcome = audit(20, 30, 1);
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("is a symbolic link"), std::string::npos) << outcome.err;
}

TEST_F(Audit, OfACheckpointThatTheRunDeletesMeanwhile_BitIdentical) {
  ASSERT_NO_FATAL_FAILURE(train());
  Program program({rekindle(), "audit", dir(), "--from", "10", "--to", "30"});
  audit_with("terms");  // the run of the audit itself begins
  ASSERT_TRUE(checkpoint::discard(dir(), newest_of(10)));
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("bit-identical"), std::string::npos) << outcome.out;
}

// The checkpoint may disappear before the run of the audit begins, or later. Then that run would begin with
// the initial values, and its result would have no meaning.
TEST_F(Audit, WithoutTheCheckpointToBeginWith_NothingIsCompared) {
  ASSERT_NO_FATAL_FAILURE(train());
  const fs::path start = fs::path("checkpoints") / newest_of(10).directory_name();
  const auto nothing_compared = [&](const fs::path& once_it_has, const auto& spoil) {
    Program program({rekindle(), "audit", dir(), "--from", "10", "--to", "30"});
    spoil(audit_with(once_it_has) / start);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find("the checkpoint of step 10 could not be used: nothing was compared"),
              std::string::npos)
        << outcome.err;
  };
  nothing_compared(start / "shard-00001-of-00002.h5", [&](const fs::path& linked) {
    EXPECT_TRUE(eventually(
        [&] { return names_in(linked).value().size() == names_in(dir() / start).value().size(); }));
    fs::remove_all(linked);
  });
  nothing_compared("terms", [](const fs::path& linked) {
    fs::remove(linked / "manifest.json");  // a link: the file of the run itself does not change
    std::ofstream(linked / "manifest.json") << "rubbish";
  });
  EXPECT_EQ(audit(10, 30, 1).exit_code, 0);
}

TEST_F(Audit, DataWereMoved_AreFoundByDataOrAskedFor) {
  const fs::path data = scratch_ / "data", moved = scratch_ / "moved";
  fs::copy(mnist_data(), data, fs::copy_options::recursive);
  Arguments job = mnist_run(dir(), 2, 10);
  std::ranges::replace(job, mnist_data().string(), data.string());
  ASSERT_EQ(run(job).exit_code, 0);
  fs::rename(data, moved);
  const Outcome none = audit(0, 10, 1);
  EXPECT_EQ(none.exit_code, 78) << none.out;
  EXPECT_NE(none.err.find("set --data to a folder"), std::string::npos) << none.err;
  const Outcome found = run({"audit", dir(), "--from", "0", "--to", "10", "--data", moved});
  EXPECT_EQ(found.exit_code, 0) << found.out << found.err;
}

TEST_F(Audit, OnOtherDataThanTheRuns_Refused) {
  const fs::path data = scratch_ / "data";
  fs::copy(mnist_data(), data, fs::copy_options::recursive);
  for (const int steps : {10, 20}) {
    Arguments job = mnist_run(dir(), 2, steps);
    std::ranges::replace(job, mnist_data().string(), data.string());
    ASSERT_EQ(run(job).exit_code, 0);
  }
  ASSERT_EQ(audit(0, 10, 1).exit_code, 0);
  fs::path images;
  for (const auto& entry : fs::recursive_directory_iterator(data)) {
    if (entry.is_regular_file() && (images.empty() || entry.file_size() > fs::file_size(images)))
      images = entry.path();
  }
  std::fstream stream(images, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(1000);
  stream << "other bytes";
  stream.close();
  for (const int from : {0, 10}) {
    const Outcome outcome = audit(from, from + 10, 1);
    EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find("its data_hash differs from the present data"), std::string::npos)
        << outcome.err;
  }
}

TEST_F(Audit, TwoAtOnceAndOneInterrupted_DoNotDisturbEachOther) {
  ASSERT_NO_FATAL_FAILURE(train());
  const auto before = paths_under(dir());
  const Arguments steps{rekindle(), "audit", dir(), "--from", "0", "--to", "30"};
  const auto audits = [&] {
    return std::ranges::count_if(names_in(dir()).value(),
                                 [](const auto& name) { return name.starts_with("audit-"); });
  };
  Program killed(steps);
  ASSERT_TRUE(eventually([&] { return audits() == 1; }));
  killed.signal(SIGKILL);
  killed.wait();
  ASSERT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  Program one(steps), other(steps);
  EXPECT_EQ(one.wait().exit_code, 0);
  EXPECT_EQ(other.wait().exit_code, 0);
  EXPECT_EQ(paths_under(dir()), before);
}

TEST_F(Audit, OfStepsThatAreNotThere_SaysSo) {
  ASSERT_NO_FATAL_FAILURE(train());
  EXPECT_EQ(audit(10, 25, 1).exit_code, 78);
  EXPECT_EQ(audit(15, 20, 1).exit_code, 78);
  EXPECT_EQ(audit(20, 20, 1).exit_code, 64);
  EXPECT_EQ(audit(20, 10, 1).exit_code, 64);
  EXPECT_EQ(run({"audit", scratch_ / "nothing", "--from", "1", "--to", "2"}).exit_code, 78);
}

}  // namespace
}  // namespace rekindle::process_test
