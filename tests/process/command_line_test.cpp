// The messages of the program for the user who types its commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files.hpp"
#include "base/processors.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

class CommandLine : public ::testing::Test {
 protected:
  std::string said(const Arguments& arguments, int exit_code = 0) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
    return exit_code == 0 ? outcome.out : outcome.err;
  }
  fs::path dir() const { return scratch_ / "run"; }
  Scratch scratch_;
};

TEST_F(CommandLine, Version) {
  EXPECT_THAT(
      said({"--version"}),
      MatchesRegex(
          "rekindle 0\\.1\\.0-[0-9a-f]+\nbuilt    with .*, LibTorch [0-9.]+, CAF [0-9.]+, .*\ntrainer  "
          "0\\.1\\.0-[0-9a-f]+\n"));
}

TEST_F(CommandLine, StartShowsWhatWillBeDone) {
  const std::string text = said(mnist_run(dir(), 3, 5) + Arguments{"--micro-batches", "2"});
  for (const std::string& part : std::vector<std::string>{
           "model ", "mnist-cnn, 1.20 million parameters", "mnist: 1000 training and 200 test images",
           "5 steps", "batch of 16 images in 2 micro-batches", "3 trainers on cpu", dir().string(),
           "1 of the 3 trainers will idle: a batch has 2 micro-batches (--micro-batches)"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_LT(text.find("model "), text.find("generation t1.g1"));
}

TEST_F(CommandLine, FolderOfTheShellWasRemoved_IsOneLine) {
  const fs::path gone = scratch_ / "gone";
  fs::create_directory(gone);
  const Outcome outcome =
      Program({"/bin/sh", "-c", "cd \"$0\" && rmdir \"$0\" && exec \"$@\"", gone, rekindle(), "join", "run"})
          .wait();
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, StartsWith("rekindle: the current folder cannot be used: "));
  EXPECT_EQ(times_in(outcome.err, "\n"), 1U) << outcome.err;
}

TEST_F(CommandLine, TrainersThatShareProcessors_AreWarnedOf) {
  const std::string processors = str(rekindle::processors());
  const std::string text = said(mnist_run(dir(), 2, 1) + Arguments{"--threads", processors});
  EXPECT_THAT(text, ContainsRegex(str("warning: 2 trainers of ", processors, " threads? share ", processors,
                                      " processors?: more than 1 at once will not be faster")));
  EXPECT_THAT(said(mnist_run(scratch_ / "alone", 1, 1)), Not(HasSubstr("share")));
}

TEST_F(CommandLine, BatchNormOfAFewSamples_IsWarnedOf) {
  const auto resnet = [&](const char* micro_batches) {
    return run(vgg_run(scratch_ / micro_batches, 1, 1) + Arguments{"--model", "resnet18", "--image-size",
                                                                   "32", "--batch-size", "16",
                                                                   "--micro-batches", micro_batches})
        .err;
  };
  EXPECT_THAT(resnet("4"), HasSubstr("warning: batch norm sees only 4 samples in each micro-batch: use fewer "
                                     "--micro-batches, or a larger --batch-size"));
  EXPECT_THAT(resnet("2"), Not(HasSubstr("batch norm sees")));
}

TEST_F(CommandLine, TextFilesBesideFoldersOfSplits_AreWarnedOf) {
  const fs::path text = scratch_ / "text";
  for (const char* file : {"train/a", "val/a"}) said({"make-data", "text", text / file, "--samples", "50"});
  const auto gpt = [&](const fs::path& run_dir) {
    return run({"local", "--run-dir", run_dir, "--model", "gpt", "--layers", "1", "--heads", "1", "--width",
                "16", "--context", "32", "--data", text, "--steps", "1", "--batch-size", "8"})
        .err;
  };
  EXPECT_THAT(gpt(dir()), Not(HasSubstr("only the files are read")));
  fs::copy_file(text / "train/a", text / "notes.txt");
  EXPECT_THAT(
      gpt(scratch_ / "another"),
      HasSubstr(str("rekindle: warning: of ", text.string(), ", only the files are read (notes.txt), ",
                    "and the folders train and val are not: if these are the splits, move")));
}

TEST_F(CommandLine, OneStep_IsNotCalledSteps) {
  EXPECT_THAT(said(mnist_run(dir(), 1, 1)), HasSubstr("finished: 1 step\n"));
  EXPECT_THAT(said(mnist_run(dir(), 1, 1)), HasSubstr("the run is complete: 1 step,"));
  EXPECT_THAT(said({"join", dir()}), HasSubstr("the run is complete (1 step)"));
}

TEST_F(CommandLine, SlowFirstStep_IsSaidToBeUnderWay) {
  const Outcome outcome = run(vgg_run(dir(), 1, 1) + Arguments{"--image-size", "224"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  // Every 10 s, the line comes again with the seconds.
  EXPECT_EQ(times_in(outcome.err, "first step under way\n"), 1U) << outcome.err;
}

TEST_F(CommandLine, EpochsCountFromOne) {
  const std::string text = said(mnist_run(dir(), 1, 70));
  EXPECT_THAT(text, HasSubstr("after epoch 1 (step 63)"));
  EXPECT_THAT(text, HasSubstr("after epoch 2 (step 70)"));
  EXPECT_THAT(said({"status", dir()}), HasSubstr("epoch 2"));
  EXPECT_THAT(said({"inspect", dir()}), HasSubstr("step 70, epoch 2"));
}

TEST_F(CommandLine, AfterChangeLr_TheFirstCommandGoesOnWithTheLastRate) {
  said(mnist_run(dir(), 1, 2));
  said(mnist_run(dir(), 1, 4) + Arguments{"--lr", "0.5", "--change-lr"});
  EXPECT_THAT(said(mnist_run(dir(), 1, 6)), HasSubstr("--lr 0.5, as the last --change-lr has set"));
  said(mnist_run(scratch_ / "told", 1, 2));
  said(mnist_run(scratch_ / "told", 1, 4) + Arguments{"--lr", "0.5", "--change-lr"});
  said(mnist_run(scratch_ / "told", 1, 6) + Arguments{"--lr", "0.5"});
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "told"));
  EXPECT_THAT(said(mnist_run(dir(), 1, 8) + Arguments{"--lr", "0.7"}, 78), HasSubstr("--change-lr"));
}

// A person goes back because the new rate came too late.
TEST_F(CommandLine, ChangeLrAgain_AfterGoingBack_HoldsFromThere) {
  const Arguments all = {"--keep", "100", "--checkpoint-every", "2"}, lower = {"--lr", "0.5", "--change-lr"};
  for (const char* name : {"run", "told"}) said(mnist_run(scratch_ / name, 1, 2) + all);
  said(mnist_run(scratch_ / "told", 1, 6) + all + lower);
  said(mnist_run(dir(), 1, 4) + all);
  said(mnist_run(dir(), 1, 6) + all + lower);
  const auto move_away = [&](const std::string& step) {
    for (const auto& entry : fs::directory_iterator(dir() / "checkpoints"))
      if (entry.path().filename().string().starts_with("step-000000000" + step))
        fs::rename(entry.path(), scratch_ / entry.path().filename());
  };
  for (const char* step : {"4", "6"}) move_away(step);
  fs::remove(dir() / "newest");
  const Outcome again = run(mnist_run(dir(), 1, 6) + all + lower);
  EXPECT_THAT(again.err,
              HasSubstr("--lr 0.5 of --change-lr holds from step 2 on, and no longer from step 4"));
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "told"));
}

TEST_F(CommandLine, Export_OverwritesOnlyWithForceAndSaysWhatItWrote) {
  said(mnist_run(dir(), 1, 2));
  const fs::path file = scratch_ / "weights.safetensors";
  EXPECT_THAT(said({"export", dir(), file}),
              ContainsRegex("wrote " + file.string() + ": 8 tensors, 4.8 MB, of step 2"));
  std::ofstream(file) << "precious";
  EXPECT_THAT(said({"export", dir(), file}, 78), HasSubstr("is there already: add --force"));
  EXPECT_EQ(*read_text(file), "precious");
  said({"export", dir(), file, "--force"});
  EXPECT_THAT(said({"export", dir(), scratch_ / "none" / "weights.pt"}, 78),
              HasSubstr("none: no such folder"));
  EXPECT_GT(fs::file_size(file), 4000000U);
}

TEST_F(CommandLine, HelpIsACommandToo) {
  EXPECT_EQ(said({"help"}), said({"--help"}));
  EXPECT_EQ(said({"help", "join"}), said({"join", "--help"}));
  EXPECT_THAT(said({"help", "local"}), HasSubstr("Usage: rekindle local "));
  EXPECT_EQ(said({"help", "foo"}, 64), said({"foo"}, 64));
  EXPECT_THAT(said({"submit", "--help"}), Not(HasSubstr("--workers")));
}

TEST_F(CommandLine, OptionsOfOtherLaunchers_AreAnsweredWithWhatToDo) {
  EXPECT_THAT(said(mnist_run(dir(), 1, 2) + Arguments{"--nnodes", "2"}, 64), HasSubstr("rekindle join"));
  EXPECT_THAT(said(mnist_run(dir(), 1, 2) + Arguments{"--resume", "x"}, 64),
              HasSubstr("a run goes on by itself"));
  for (const char* option : {"--resume-from=x", "--rdzv_backend=c10d", "--standalone"})
    EXPECT_THAT(said(mnist_run(dir(), 1, 2) + Arguments{option}, 64),
                ContainsRegex("goes on by itself|leave it out"));
  EXPECT_THAT(said(mnist_run(dir(), 1, 2) + Arguments{"--init", scratch_ / "x.pth"}, 64),
              HasSubstr("is a pickle"));
}

TEST_F(CommandLine, DataOfAnotherFormat_TheMessageNamesIt) {
  EXPECT_THAT(said(vgg_run(dir(), 1, 1) + Arguments{"--data", mnist_data()}, 78),
              HasSubstr("the folder looks like one for --dataset mnist"));
}

TEST_F(CommandLine, StatusOfARunThatEnded_SaysHow) {
  said(mnist_run(dir(), 1, 2));
  const std::string text = said({"status", dir()});
  EXPECT_THAT(text, HasSubstr("end      finished: 2 steps"));
}

TEST_F(CommandLine, MakeDataSaysWhatItDid) {
  const Arguments make{"make-data", "mnist", scratch_ / "data", "--samples", "50"};
  EXPECT_THAT(said(make), HasSubstr("data: wrote a made mnist data set of 50 training and 10 test images"));
  EXPECT_THAT(said(make), HasSubstr("data: nothing to do, "));
  std::ofstream(scratch_ / "file") << "precious";
  EXPECT_THAT(said({"make-data", "mnist", scratch_ / "file"}, 78), HasSubstr("file is a file, not a folder"));
  EXPECT_THAT(said({"make-data", "mnist", scratch_ / "data", "--samples", "60"}, 78),
              HasSubstr("exists and is not the file that this command makes"));
  EXPECT_THAT(
      said({"make-data", "text", scratch_ / "book.txt", "--samples", "50"}),
      HasSubstr("book.txt: wrote a made text data set of 50 training and 5 test contexts of 256 bytes"));
}

// As printf %03d writes them: 010 is ten.
TEST_F(CommandLine, NumbersAreDecimal) {
  const std::string text = said(mnist_run(dir(), 1, 1) + Arguments{"--batch-size", "064", "--seed", "007"});
  EXPECT_THAT(text, HasSubstr("a batch of 64 images"));
  EXPECT_THAT(said({"inspect", dir()}), HasSubstr("seed=7"));
  EXPECT_THAT(said({"digest", dir(), "--step", "001"}), Not(HasSubstr("error")));
  EXPECT_THAT(said(mnist_run(dir(), 1, 1) + Arguments{"--batch-size", "0x10"}, 64),
              HasSubstr("'0x10' is not a whole number"));
  EXPECT_THAT(said({"wait", dir(), "--step", "-1"}, 64), HasSubstr("'-1' is not a whole number"));
}

// "$UNSET" of a shell.
TEST_F(CommandLine, EmptyArguments_AreRefused) {
  const std::string hint = ": is a variable of the shell not set?\n";
  EXPECT_EQ(said(mnist_run(dir(), 1, 1) + Arguments{"--init", ""}, 64),
            "rekindle: the value of --init is empty" + hint);
  EXPECT_EQ(said(mnist_run(dir(), 1, 1) + Arguments{"--init="}, 64),
            "rekindle: the value of --init is empty" + hint);
  for (const char* command : {"local", "submit", "join", "wait", "watch", "evaluate", "status"})
    EXPECT_EQ(said({command, ""}, 64), "rekindle: an argument is empty" + hint) << command;
  EXPECT_FALSE(fs::exists(dir()));
}

TEST_F(CommandLine, OutputOnAFullDisk_IsAnError) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 1)).exit_code, 0);
  for (const char* command : {"digest", "status", "list", "inspect", "plot"}) {
    const std::string line = str(rekindle(), " ", command, " ", dir().string(), " >/dev/full");
    const Outcome full = Program({"/bin/sh", "-c", line}).wait();
    EXPECT_EQ(full.exit_code, 70) << command;
    EXPECT_EQ(full.err, "rekindle: standard output could not be written\n") << command;
  }
}

// `ulimit -f` counts in 1024 bytes in bash, and in 512 in other shells: the state is larger than both.
TEST_F(CommandLine, LimitOfFileSizes_IsAnErrorLikeAFullDisk) {
  Arguments limited = {"/bin/sh", "-c", "ulimit -f 2000 && exec \"$@\"", "sh", rekindle()};
  const Outcome ended = Program(limited + mnist_run(dir(), 1, 2)).wait();
  EXPECT_TRUE(ended.exit_code == 70 || ended.exit_code == 75) << ended.err;
  EXPECT_THAT(ended.out + ended.err, HasSubstr("File too large"));
  EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("signal")));
  EXPECT_EQ(run(mnist_run(dir(), 1, 2)).exit_code, 0) << "there is room again";
}

// The run goes on after a kill from its newest checkpoint, and says what that costs.
TEST_F(CommandLine, StepsThatNoCheckpointHas_AreCounted) {
  Program killed(Arguments{rekindle()} + mnist_run(dir(), 1, 1000000));
  ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= 3 || !killed.running(); }));
  for (const pid_t pid : processes_with(dir())) ::kill(pid, SIGKILL);
  killed.wait();
  const std::string text = said(mnist_run(dir(), 1, 4));
  EXPECT_THAT(text, ContainsRegex("to be made again: [0-9]+ steps? after step 0\n"));
}

TEST_F(CommandLine, CosineRunThatIsMadeLonger_SaysThatItsRateIsNearlyZero) {
  const Arguments cosine = {"--schedule", "cosine"};
  ASSERT_EQ(run(mnist_run(dir(), 1, 2) + cosine).exit_code, 0);
  const Outcome longer = run(mnist_run(dir(), 1, 3) + cosine);
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_THAT(longer.err,
              HasSubstr("warning: the cosine schedule ends at step 2, where this run ended at first"));
}

TEST_F(CommandLine, SubmitOfSeveralWorkersANode_Refused) {
  EXPECT_THAT(said({"submit", "--run-dir", dir(), "--model", "mnist-cnn", "--data", mnist_data(), "--steps",
                    "1", "--workers", "4", "--print"},
                   64),
              HasSubstr("--workers is for rekindle local: a job has one worker a node"));
}

TEST_F(CommandLine, InitNamesItsFile) {
  const fs::path file = scratch_ / "weights.safetensors";
  EXPECT_THAT(said(mnist_run(dir(), 1, 2) + Arguments{"--init", file}, 78),
              AllOf(HasSubstr("rekindle: --init"), HasSubstr(file.string())));
  said(mnist_run(dir(), 1, 2));
  said({"export", dir(), file});
  EXPECT_THAT(said(mnist_run(scratch_ / "from", 1, 1) + Arguments{"--init", file}),
              HasSubstr("--init " + file.string() + ": 8 of its 8 tensors"));
  EXPECT_THAT(said(mnist_run(dir(), 1, 3) + Arguments{"--init", file}, 78),
              HasSubstr("--init " + file.string() + " "));
}

TEST_F(CommandLine, InspectShowsSizesAPersonCanRead) {
  said(mnist_run(dir(), 1, 2));
  const std::string text = said({"inspect", dir()});
  EXPECT_THAT(text, HasSubstr("weights 4.8 MB, optimizer 9.6 MB"));
  EXPECT_THAT(text, HasSubstr("model=mnist-cnn"));
  EXPECT_THAT(text, Not(HasSubstr("0.00 GB")));
  EXPECT_THAT(text, Not(HasSubstr("{")));
}

}  // namespace
}  // namespace rekindle::process_test
