// Runs that begin from the weights of a file or of another run, without losing a bit.
#include <gtest/gtest.h>

#include <csignal>

#include "../read_lines.hpp"
#include "base/text.hpp"
#include "interchange_fixture.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::process_test {
namespace {

double first_loss(const fs::path& run_dir) {
  for (const auto& line : run::read_lines(run::Layout(run_dir).metrics())) {
    if (line.contains("loss") && line.value("step", 0) == 1) return line.at("loss");
  }
  ADD_FAILURE() << "no first step in " << run_dir;
  return 0;
}

TEST_F(Interchange, FromTheWeightsThatASeedDraws_TheBitsThatTheSeedGives) {
  finish(at("drawn"), 4, {});
  const fs::path weights = initial_weights("1", "weights.safetensors");
  for (const fs::path& source : {weights, initial_weights("1", "weights.h5")}) {
    const fs::path dir = at("from-" + source.extension().string());
    finish(dir, 4, {"--init", source});
    EXPECT_EQ(first_loss(dir), first_loss(at("drawn"))) << source;
    EXPECT_EQ(digest_of(dir), digest_of(at("drawn"))) << source;
  }
  // Only the weights matter, not the seed that created them.
  const fs::path others = initial_weights("2", "others.safetensors");
  finish(at("others"), 4, {"--init", others});
  EXPECT_NE(first_loss(at("others")), first_loss(at("drawn")));
}

TEST_F(Interchange, FromACheckpointOrARun_WithItsOptimizerState) {
  const Arguments sgd = {"--optimizer", "sgd", "--lr", "0.01"};
  finish(at("first"), 3, sgd);
  const fs::path weights = at("weights.safetensors"), all = at("all.safetensors");
  ASSERT_EQ(run({"export", at("first"), weights}).exit_code, 0);
  ASSERT_EQ(run({"export", at("first"), all, "--with-optimizer"}).exit_code, 0);
  finish(at("from run"), 2, sgd + Arguments{"--init", at("first")});
  finish(at("from all"), 2, sgd + Arguments{"--init", all});
  finish(at("from weights"), 2, sgd + Arguments{"--init", weights});
  EXPECT_EQ(digest_of(at("from run")), digest_of(at("from all")));
  EXPECT_NE(digest_of(at("from run")), digest_of(at("from weights")));
  EXPECT_EQ(first_loss(at("from run")), first_loss(at("from weights")));
  // Another optimizer starts with its own state.
  finish(at("adadelta from run"), 2, {"--init", at("first")});
  finish(at("adadelta from weights"), 2, {"--init", weights});
  EXPECT_EQ(digest_of(at("adadelta from run")), digest_of(at("adadelta from weights")));
}

TEST_F(Interchange, FromARunWithoutACheckpoint_RefusedWithTheNameOfTheRun) {
  fs::create_directories(at("empty") / "checkpoints");
  refused(at("no"), {"--init", at("empty")}, 78,
          str("--init ", at("empty").string(), ": there is no committed checkpoint"));
}

TEST_F(Interchange, AnotherNumberOfClasses_RefusedWithBothNumbersUnlessTheHeadIsReset) {
  const fs::path weights = initial_weights("1", "weights.safetensors");
  refused(at("no"), {"--classes", "12", "--init", weights}, 78,
          "is for 10 classes, this run has 12: add --reset-head");
  EXPECT_FALSE(fs::exists(at("no")));
  // All layers except the head come from the file; the head has the initial values of the seed of this run.
  const Arguments twelve = kStill + Arguments{"--classes", "12", "--seed", "2"};
  finish(at("drawn"), 1, twelve);
  finish(at("reset"), 1, twelve + Arguments{"--init", weights, "--reset-head"});
  for (const char* name : {"drawn", "reset"})
    ASSERT_EQ(run({"export", at(name), at(str(name, ".safetensors"))}).exit_code, 0);
  const auto from = checkpoint::read_safetensors(weights),
             drawn = checkpoint::read_safetensors(at("drawn.safetensors")),
             reset = checkpoint::read_safetensors(at("reset.safetensors"));
  ASSERT_TRUE(from && drawn && reset);
  for (const char* name : {"conv1.weight", "fc1.weight", "fc1.bias"})
    EXPECT_TRUE(std::ranges::equal(bytes_of(*reset, name), bytes_of(*from, name))) << name;
  for (const char* name : {"fc2.weight", "fc2.bias"})
    EXPECT_TRUE(std::ranges::equal(bytes_of(*reset, name), bytes_of(*drawn, name))) << name;
}

TEST_F(Interchange, AResumeFromOtherWeights_Refused) {
  const fs::path weights = initial_weights("1", "weights.safetensors"),
                 others = initial_weights("2", "others.safetensors");
  finish(at("run"), 2, {"--init", weights});
  const std::string digest = digest_of(at("run"));
  refused(at("run"), {"--init", others}, 78,
          str("--init ", others.string(), " gives other values than those that the run began with"));
  fs::rename(weights, at("away"));
  finish(at("run"), 2, {"--init", weights});  // the file is needed only at the first start
  fs::rename(at("away"), weights);
  refused(at("run"), {"--init", weights, "--reset-head"}, 78,
          " gives other values than those that the run began with");
  EXPECT_EQ(digest_of(at("run")), digest);
  finish(at("drawn"), 2, {});
  refused(at("drawn"), {"--init", weights}, 78, " is given, and the run began without --init");
  // The same weights under another name are accepted, and the file is not needed any more.
  fs::rename(weights, at("moved.safetensors"));
  finish(at("run"), 3, {"--init", at("moved.safetensors")});
  finish(at("run"), 4, {});
  finish(at("straight"), 4, {"--init", at("moved.safetensors")});
  EXPECT_EQ(digest_of(at("run")), digest_of(at("straight")));
}

TEST_F(Interchange, AllTrainersKilledBeforeTheFirstCheckpoint_BeginFromTheSameWeights) {
  const fs::path weights = initial_weights("2", "weights.safetensors");
  finish(at("quiet"), 120, {"--init", weights});
  Program killed(Arguments{rekindle()} + mnist_run(at("killed"), 2, 120) + Arguments{"--init", weights});
  ASSERT_TRUE(eventually([&] { return reached_step(at("killed")) >= 3; }));
  fs::remove(weights);
  for (const pid_t trainer : parts_of(at("killed"), "trainer")) ::kill(trainer, SIGKILL);
  const Outcome outcome = killed.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(digest_of(at("killed")), digest_of(at("quiet")));
}

TEST_F(Interchange, KilledBeforeTheFirstCheckpoint_ResumedWithoutInitFromTheSameWeights) {
  const fs::path weights = initial_weights("2", "weights.safetensors"), dir = at("killed");
  const fs::path others = initial_weights("1", "others.safetensors");
  finish(at("quiet"), 240, {"--init", weights});
  Program killed(Arguments{rekindle()} + mnist_run(dir, 1, 240) + Arguments{"--init", weights});
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 3; }));
  // A refused command must not damage another run, nor this run from another host.
  refused(dir, {"--seed", "5", "--init", others}, 78, "is held by a live run");
  killed.signal(SIGKILL);
  killed.wait();
  ASSERT_TRUE(eventually([&] { return processes_with(dir).empty(); }));
  refused(dir, {"--seed", "5"}, 78, "belongs to another run: --seed is 1 in the run and 5 in this command");
  finish(dir, 240, {});
  EXPECT_EQ(digest_of(dir), digest_of(at("quiet")));
}

}  // namespace
}  // namespace rekindle::process_test
