// Scripts (docs/python.md) whose optimizer fails, that trainers join, or that change between two attempts.
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

// The optimizer is a simple LAMB, which makes new tensors in each step.
TEST_F(Python, OptimizerFailsInOneTrainerAndAnotherOneJoins_SameDigest) {
  const fs::path fails = scratch_ / "fails", dir = scratch_ / "run";
  const Arguments arguments = {"lamb=" + fails.string(), "clip_norm=0.5", "steps=300"};
  const std::string expected = digest("calm", 1, "shm", 0, arguments);
  ASSERT_EQ(expected.size(), 33U) << expected;
  Program program(Arguments{rekindle()} + local(dir, 2, "shm", 0, everything(), arguments));
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 3 || !program.running(); }));
  std::ofstream(fails).put('x');
  ASSERT_TRUE(eventually([&] {
    return program.printed().find("with 2 trainers, 1 of them new") != std::string::npos ||
           !program.running();
  }));
  EXPECT_FALSE(fs::exists(fails));
  Program helper({rekindle(), "join", dir});
  ASSERT_TRUE(eventually([&] { return trainers_now(dir) == 3 || !program.running(); }));
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(helper.wait().exit_code, 0);
  EXPECT_EQ(times_in(outcome.out, "resumes from step"), 0U) << "the other trainer kept the state\n"
                                                            << outcome.out;
  EXPECT_NE(outcome.out.find("RuntimeError: this trainer's update fails"), std::string::npos) << outcome.out;
  EXPECT_EQ(digest_of(dir), expected);
}

// `width` of the model's only layer, and `count` of samples.
std::string small(const std::string& width, const std::string& count, const std::string& comment = "") {
  return str("import torch, rekindle\n", comment, "rekindle.run(model=lambda: torch.nn.Linear(4, ", width,
             "), loss=lambda model, x: (model(x) ** 2).mean(), train_data=[torch.ones(4)] * ", count,
             ", test_data=[torch.ones(4)] * 4, batch_size=16, micro_batches=2, steps=4)\n");
}

TEST_F(Python, ScriptChangesBetweenTwoAttempts_WarnedOfOnceOrRefusedByName) {
  const fs::path dir = scratch_ / "run";
  const auto go_on = [&](const std::string& text, const Arguments& more) {
    return run(Arguments{"local", "--run-dir", dir} + more + Arguments{script("train.py", text)});
  };
  ASSERT_EQ(go_on(small("3", "64"), {}).exit_code, 0);
  const Outcome strict = go_on(small("3", "64", "# other\n"), {"--steps", "8", "--strict"});
  EXPECT_EQ(strict.exit_code, 78) << strict.out << strict.err;
  const Outcome changed = go_on(small("3", "64", "# other\n"), {"--steps", "8"});
  EXPECT_EQ(changed.exit_code, 0) << changed.out << changed.err;
  EXPECT_EQ(times_in(changed.out, "script"), 1U) << changed.out;
  const Outcome wider = go_on(small("5", "64"), {"--steps", "12"});
  EXPECT_EQ(wider.exit_code, 78) << wider.out << wider.err;
  EXPECT_EQ(times_in(wider.err, "holds another model's tensors: it has weight (float32, [3, 4])"), 1U)
      << wider.err;
  const Outcome longer = go_on(small("3", "80"), {"--steps", "12"});
  EXPECT_EQ(longer.exit_code, 78) << longer.out << longer.err;
  EXPECT_EQ(times_in(longer.err, "samples"), 1U) << longer.err;

  const std::string load = str("import torch, rekindle\ntry:\n    rekindle.load('", dir.string(),
                               "', torch.nn.Linear(4, 5))\nexcept rekindle.RekindleError as error:\n"
                               "    print(error)\n");
  const Outcome loaded = python({script("load.py", load)});
  EXPECT_EQ(times_in(loaded.out,
                     "the checkpoint is of another model: its weight is [3, 4], the model's is [5, 4]: "
                     "has the script changed?\n"),
            1U)
      << loaded.out << loaded.err;
}

TEST_F(Python, InterpreterWithoutTorch_ALineThatSaysSo) {
  const std::string bare = script("bare", str("#!/bin/sh\nexec ", python_, " -S \"$@\"\n"));
  fs::permissions(bare, fs::perms::owner_all);
  const Outcome outcome =
      run({"local", "--run-dir", scratch_ / "run", "--python", bare, script("train.py", small("3", "64"))});
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "has no torch: pip install torch"), 1U) << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
