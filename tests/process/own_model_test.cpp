// A program outside of the tree with a model and a data set of its own: examples/own-model, which the ctest
// OwnModel.Build has built with an installed package.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/command.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

using testing::HasSubstr;

const fs::path kWork = OWN_MODEL;
const fs::path kTrainer = kWork / "my model" / "build" / "own-trainer";
const fs::path kInstalled = kWork / "moved here" / "bin" / "rekindle";

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

CommandOutput run_program(const Arguments& words) {
  const auto output = run_command(words, std::chrono::minutes(10));
  return output ? *output : CommandOutput{{false, -1}, "", output.error().line()};
}

class OwnModel : public testing::Test {
 protected:
  // 60 images, in the format of the example's data set.
  fs::path data() const {
    std::string bytes;
    for (int image = 0; image < 60; ++image)
      for (int i = 0; i < 65; ++i) bytes += static_cast<char>(i == 0 ? image % 10 : image * i % 251);
    std::ofstream(scratch_ / "patches.bin", std::ios::binary) << bytes;
    return scratch_ / "patches.bin";
  }
  Arguments job(const fs::path& run_dir, int workers, int steps) const {
    return {"local",     "--run-dir",    run_dir,   "--workers",       str(workers), "--model",
            "small-cnn", "--dataset",    "patches", "--data",          data(),       "--steps",
            str(steps),  "--batch-size", "16",      "--micro-batches", "4"};
  }
  void train(const Arguments& program, const Arguments& arguments) const {
    const CommandOutput done = run_program(program + arguments);
    ASSERT_TRUE(done.ok()) << done.out << done.err;
  }
  void refused(const Arguments& words, int code, const std::string& line) const {
    const CommandOutput output = run_program(words);
    EXPECT_EQ(output.status.code, code) << output.out << output.err;
    EXPECT_THAT(output.err, HasSubstr(line));
    EXPECT_EQ(times_in(output.err, "\n"), 1U) << output.err;
  }
  Scratch scratch_;
};

TEST_F(OwnModel, ExampleIsThePageInTheDocuments) {
  for (const char* file : {"main.cpp", "small_cnn.cpp"})
    EXPECT_EQ(text_of(fs::path(OWN_MODEL_EXAMPLE) / file), text_of(fs::path(OWN_MODEL_PAGE) / file)) << file;
  const std::string page = text_of(fs::path(OWN_MODEL_EXAMPLE) / "../../docs/extending.md");
  const std::string begin = "\n```cmake\n";
  ASSERT_EQ(times_in(page, begin), 1U);
  const std::size_t first = page.find(begin) + begin.size(), end = page.find("```", first);
  ASSERT_LT(first, end);
  EXPECT_THAT(text_of(fs::path(OWN_MODEL_EXAMPLE) / "CMakeLists.txt"),
              HasSubstr(page.substr(first, end - first)));
}

TEST_F(OwnModel, AnyNumberOfWorkers_SameDigest) {
  train({kTrainer}, job(scratch_ / "one", 1, 4));
  // Found in PATH: argv[0] has no slash.
  const std::string path = str("PATH=", kTrainer.parent_path().string(), ":/usr/bin:/bin");
  train({"env", path, "own-trainer"}, job(scratch_ / "two", 2, 4));
  EXPECT_EQ(digest_of(scratch_ / "one"), digest_of(scratch_ / "two"));
  EXPECT_EQ(digest_of(scratch_ / "one").size(), 33U) << digest_of(scratch_ / "one");
}

TEST_F(OwnModel, DryRun_TriesThisProgram) {
  const CommandOutput tried =
      run_program(Arguments{kTrainer} + job(scratch_ / "run", 1, 1000) + Arguments{"--dry-run"});
  EXPECT_TRUE(tried.ok()) << tried.out << tried.err;
  EXPECT_NE(tried.out.find("steps with 1 trainer and a checkpoint were made"), std::string::npos)
      << tried.out;
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), {}), 1) << "more than the data";
}

TEST_F(OwnModel, ProgramIsGone_TheRunGoesOnWithTheCopyThatItKept) {
  const fs::path program = scratch_ / "another name", run_dir = scratch_ / "run";
  fs::copy(kTrainer, program);
  train({program}, job(run_dir, 1, 3));
  EXPECT_EQ(text_of(run_dir / "bin" / "rekindle-trainer"), text_of(kTrainer));
  fs::remove(program);
  train({kInstalled}, job(run_dir, 2, 6));
  train({kTrainer}, job(scratch_ / "straight", 1, 6));
  EXPECT_EQ(digest_of(run_dir), digest_of(scratch_ / "straight"));
  // This repeats the steps with the run's trainer program.
  train({kInstalled}, {"audit", run_dir, "--from", "3", "--to", "6"});
}

// The copy in the run directory is what trains, until it is removed.
TEST_F(OwnModel, ChangedProgram_SaysThatTheRunGoesOnWithItsCopy) {
  const fs::path program = scratch_ / "changed", run_dir = scratch_ / "run";
  train({kTrainer}, job(run_dir, 1, 2));
  fs::copy(kTrainer, program);
  std::ofstream(program, std::ios::app) << "another build";
  const CommandOutput kept = run_program(Arguments{program} + job(run_dir, 1, 3));
  EXPECT_TRUE(kept.ok()) << kept.err;
  EXPECT_THAT(kept.err, HasSubstr("has changed since this run began: the run goes on with the copy in"));
  EXPECT_EQ(text_of(run_dir / "bin" / "rekindle-trainer"), text_of(kTrainer));
  fs::remove_all(run_dir / "bin");
  const CommandOutput changed = run_program(Arguments{program} + job(run_dir, 1, 4));
  EXPECT_TRUE(changed.ok()) << changed.err;
  EXPECT_THAT(changed.out + changed.err, HasSubstr("written by another script, build or machine"));
  EXPECT_EQ(text_of(run_dir / "bin" / "rekindle-trainer"), text_of(program));
}

// Somebody mends a fault that the first steps showed, builds again, and gives the same command.
TEST_F(OwnModel, ChangedProgramBeforeTheFirstCheckpoint_IsWhatTrains) {
  const fs::path program = scratch_ / "changed", run_dir = scratch_ / "run";
  Program first(Arguments{kTrainer} + job(run_dir, 1, 1000000));
  ASSERT_TRUE(eventually([&] { return reached_step(run_dir) > 0 || !first.running(); }));
  fs::copy(kTrainer, program);
  std::ofstream(program, std::ios::app) << "another build";
  const CommandOutput refused = run_program(Arguments{program} + job(run_dir, 1, 1000000));
  EXPECT_EQ(refused.status.code, 78) << "it is going on: " << refused.out << refused.err;
  EXPECT_EQ(text_of(run_dir / "bin" / "rekindle-trainer"), text_of(kTrainer));
  for (const pid_t pid : processes_with(run_dir)) ::kill(pid, SIGKILL);
  first.wait();
  ASSERT_TRUE(eventually([&] { return processes_with(run_dir).empty(); }));
  const CommandOutput changed = run_program(Arguments{program} + job(run_dir, 1, 3));
  EXPECT_TRUE(changed.ok()) << changed.out << changed.err;
  EXPECT_THAT(changed.out, HasSubstr("it begins with the changed program"));
  EXPECT_EQ(text_of(run_dir / "bin" / "rekindle-trainer"), text_of(program));
}

TEST_F(OwnModel, OptionsOfItsOwn_ArePartOfTheRun) {
  const fs::path dir = scratch_ / "run";
  const Arguments usual = job(dir, 1, 4), three = usual + Arguments{"--model-options", "kernels=3"};
  train(Arguments{kTrainer}, three);
  const CommandOutput inspected = run_program({kInstalled, "inspect", dir});
  EXPECT_THAT(inspected.out, HasSubstr("kernels=3")) << inspected.err;
  refused(Arguments{kTrainer} + usual, 78, "--model-options is \"kernels=3\" in the run and not set");
  EXPECT_TRUE(run_program({kTrainer, "evaluate", dir}).ok());
  train(Arguments{kTrainer}, job(scratch_ / "eight", 1, 4));
  EXPECT_NE(digest_of(scratch_ / "eight"), digest_of(dir));
  const Arguments other = job(scratch_ / "other", 1, 4) + Arguments{"--model-options"};
  refused(Arguments{kTrainer} + other + Arguments{"kernel=3"}, 64, "no option kernel: did you mean kernels?");
  refused(Arguments{kTrainer} + other + Arguments{"kernels"}, 64, "kernels has no value");
  refused(Arguments{kTrainer} + other + Arguments{"kernels=many"}, 78, "kernels=many is not a number");
  refused(Arguments{kTrainer} + other + Arguments{"kernels=0"}, 78, "kernels is not a whole number");
}

TEST_F(OwnModel, UnknownNames_OneLineWithTheNearest) {
  Arguments model = job(scratch_ / "run", 1, 4), data = model;
  std::replace(model.begin(), model.end(), std::string("small-cnn"), std::string("smal-cnn"));
  refused(Arguments{kTrainer} + model, 64, "unknown model 'smal-cnn': did you mean small-cnn?");
  std::replace(data.begin(), data.end(), std::string("patches"), std::string("patchs"));
  refused(Arguments{kTrainer} + data, 64, "--dataset patchs is not known: did you mean patches?");
  // A rekindle without this trainer program knows the built-in names alone.
  refused(Arguments{kInstalled} + job(scratch_ / "run", 1, 4), 64, "unknown model 'small-cnn'");
}

TEST_F(OwnModel, WrongFile_TheDataSetsOwnError) {
  Arguments wrong = job(scratch_ / "run", 1, 4);
  std::ofstream(scratch_ / "patches.bin") << "short";
  refused(Arguments{kTrainer} + wrong, 78, "does not have 20 or more images");
}

TEST_F(OwnModel, PackageIsGone_OneLine) {
  const fs::path hidden = kWork / "hidden";
  fs::rename(kWork / "moved here", hidden);
  refused({kTrainer, "status", scratch_.path()}, 78,
          "the rekindle that this program was built with is not in");
  fs::rename(hidden, kWork / "moved here");
}

TEST_F(OwnModel, PackageWasBuiltAgain_OneLine) {
  const fs::path build = kWork / "moved here" / "libexec" / "rekindle" / "build";
  const std::string before = text_of(build);
  std::ofstream(build) << "another";
  refused({kTrainer, "status", scratch_.path()}, 78, "is not the build that this program was built with");
  std::ofstream(build) << before;
}

// A torch folder that says another version.
TEST_F(OwnModel, AnotherLibTorch_RefusedInOneLine) {
  const fs::path torch = scratch_ / "torch", header = "include/torch/headeronly/version.h";
  fs::create_directories((torch / header).parent_path());
  fs::create_directory_symlink(fs::path(REKINDLE_TORCH) / "lib", torch / "lib");
  std::string text = text_of(fs::path(REKINDLE_TORCH) / header);
  const std::string version = "\"2.11.0\"";
  ASSERT_NE(text.find(version), std::string::npos) << text;
  std::ofstream(torch / header) << text.replace(text.find(version), version.size(), "\"2.10.0\"");
  const std::string chosen = "REKINDLE_TORCH=" + torch.string();
  for (const bool environment : {true, false}) {
    const CommandOutput refused = run_program(
        {"env", environment ? chosen : "A=B", "cmake", "-G", "Ninja", "-S", kWork / "my model", "-B",
         scratch_ / str("build", environment), "-DCMAKE_PREFIX_PATH=" + (kWork / "moved here").string(),
         environment ? "-DA=B" : "-D" + chosen});
    EXPECT_FALSE(refused.ok());
    EXPECT_THAT(refused.err,
                HasSubstr(str("LibTorch in ", torch.string(), " has version 2.10.0, and this rekindle ",
                              "was built with 2.11.0: set REKINDLE_TORCH to the torch folder of that ",
                              "version\n")));
  }
}

}  // namespace
}  // namespace rekindle::process_test
