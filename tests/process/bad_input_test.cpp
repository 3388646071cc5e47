// Bad input gives one line on stderr with the problem and a hint, the right exit code, no incomplete files
// and no remaining process.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

void refused(const Arguments& arguments, int exit_code, const std::string& what) {
  const Outcome outcome = run(arguments);
  std::string line;
  for (const std::string& argument : arguments) line += argument + " ";
  EXPECT_EQ(outcome.exit_code, exit_code) << line << outcome.err;
  EXPECT_NE(outcome.err.find(what), std::string::npos) << line << "\nsaid: " << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("rekindle: ")) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

// A run that does not start creates no run directory.
class BadRun : public ::testing::Test {
 protected:
  void refuse(const Arguments& more, int exit_code, const std::string& what) {
    refused(mnist_run(dir(), 1, 2) + more, exit_code, what);
    EXPECT_FALSE(fs::exists(dir()));
    EXPECT_TRUE(processes_with(dir()).empty());
  }
  fs::path dir() const { return scratch_ / "run"; }
  Scratch scratch_;
};

TEST_F(BadRun, WrongCommandLine_64) {
  refuse({"--micro-batches", "6"}, 64, "--micro-batches 6 is not a power of two");
  refuse({"--batch-size", "20"}, 64, "not a multiple of --micro-batches 8: use 24, or fewer micro-batches");
  refuse({"--batch-size", "0"}, 64, "--batch-size");
  refuse({"--batch-size", "-5"}, 64, "--batch-size");
  refuse({"--workers", "0"}, 64, "--workers");
  refuse({"--workers", "-1"}, 64, "--workers");
  refuse({"--image-size", "0"}, 64, "--image-size");
  refuse({"--threads", "0"}, 64, "--threads");
  refuse({"--lr", "fast"}, 64, "--lr");
  refuse({"--checkpoint-interval", "10"}, 64,
         "--checkpoint-interval '10' has no unit: write 10s, 10min or 10h");
  refuse({"--lr", "nan"}, 64, "--lr: 'nan' is not a number of at least 0");
  refuse({"--lr", "-1"}, 64, "--lr: '-1' is not a number of at least 0: see rekindle local --help\n");
  refuse({"--dropout", "1"}, 64, "--dropout: '1' is not a number from 0 to 0.999");
  refuse({"--keep", "0"}, 64, "--keep: '0' is not a whole number of at least 1");
  refuse({"--log-level", "5"}, 64, "unknown option '--log-level': see rekindle local --help\n");
  refuse({"--model", "resnet51"}, 64, "unknown model 'resnet51': did you mean resnet50?\n");
  refuse({"--workers", "100000"}, 64, "too many");
  refuse({"--bacth-size", "16"}, 64, "unknown option '--bacth-size': did you mean --batch-size?");
  refuse({"--model", "vgg1"}, 64, "did you mean vgg11?");
  refuse({"--optimizer", "sdg"}, 64, "did you mean sgd?");
  refuse({"--epochs", "2"}, 64, "--steps and --epochs are both given");
  refused({"local", "--run-dir", dir(), "--data", mnist_data(), "--model", "mnist-cnn"}, 64, "no length");
  refused({"local", "--data", mnist_data(), "--steps", "1"}, 64, "no run directory: add --run-dir DIR");
  refused({"lokal"}, 64, "there is no command 'lokal': did you mean local?\n");
  refused({"join", dir(), "--wait", "10"}, 64, "--wait '10' has no unit: write 10s, 10min or 10h");
  for (const char* command : {"slurm", "submit"})
    refused(Arguments{command, "--run-dir", dir(), "--data", mnist_data(), "--model", "mnist-cnn", "--steps",
                      "1", "--requeue-within", "10"},
            64, "--requeue-within '10' has no unit");
  refused({"make-data", "cifra10", dir()}, 64, "cifar10");
  refused({"make-data", "cifar10", dir(), "--samples", "0"}, 64, "--samples");
}

TEST_F(BadRun, WrongTraining_NothingIsWritten) {
  refuse(
      {"--no-decay", "*.bais"}, 78,
      "--no-decay: *.bais matches no parameter of the model: the parameters are conv1.weight, conv1.bias, ");
  refuse({"--no-decay", "*.bias", "--no-decay", "fc1.*"}, 78,
         "--no-decay: *.bias and fc1.* both match parameter fc1.bias");
  refuse({"--lr-scale", "fc1.*"}, 78,
         "--lr-scale fc1.* has no factor of at least 0: write it as PATTERN=0.1\n");
  refuse({"--lost-after", "0s"}, 64, "--lost-after is less than a second: a busy machine may need longer");
  refuse({"--hang-after", "20ms"}, 64, "--hang-after is less than a second");
  refuse({"--clip-norm", "0"}, 64, "--clip-norm 0 leaves no gradient");
  refuse({"--clip-norm", "-1"}, 64, "--clip-norm: '-1' is not a number of at least 0");
  refuse({"--ema", "1.5"}, 64, "--ema: '1.5' is not a number");
  refuse({"--ema", "0"}, 64, "--ema 0 averages nothing");
  refuse({"--precision", "bf61"}, 64, "--precision bf61 is not known: did you mean bf16?\n");
  std::ofstream(scratch_ / "text") << "too short";
  refused({"local", "--run-dir", dir(), "--model", "gpt", "--data", scratch_ / "text", "--steps", "1"}, 78,
          "is less than a context and the byte after it");
  EXPECT_FALSE(fs::exists(dir()));
}

TEST_F(BadRun, WrongConfigurationFile_78) {
  std::ofstream(scratch_ / "typo.toml") << "micro-batchs = 8\n";
  std::ofstream(scratch_ / "broken.toml") << "micro-batches = = 8\n";
  refuse(
      {"--config", scratch_ / "typo.toml"}, 78,
      "unknown key 'micro-batchs' in " + (scratch_ / "typo.toml").string() + ": did you mean micro-batches?");
  refuse({"--config", scratch_ / "broken.toml"}, 78, "broken.toml line 1");
  std::ofstream(scratch_ / "value.toml") << "optimizer = \"sdg\"\n";
  std::ofstream(scratch_ / "unit.toml") << "gather-time = \"5\"\n";
  refuse({"--config", scratch_ / "value.toml"}, 78,
         "value.toml: --optimizer sdg is not known: did you mean sgd?");
  refuse({"--config", scratch_ / "unit.toml"}, 78, "unit.toml: --gather-time '5' has no unit");
  refuse({"--config", scratch_ / "missing.toml"}, 78, "missing.toml");
  std::ofstream(scratch_ / "twice.toml") << "learning-rate = 0.1\nlr = 0.2\n";
  std::ofstream(scratch_ / "other.toml") << "config = \"value.toml\"\n";
  refuse({"--config", scratch_ / "other.toml"}, 78, "other.toml: one file has all options");
  std::ofstream(scratch_ / "nested.toml") << "milestones = [[1], [2]]\n";
  refuse({"--config", scratch_ / "nested.toml"}, 78, "'milestones' is a table, or a list of lists");
  std::ofstream(scratch_ / "list.toml") << "lr = [0.1, 0.2]\n";
  refuse({"--config", scratch_ / "list.toml"}, 78, "--lr: '0.1,0.2' is not a number");
  refuse({"--config", scratch_ / "twice.toml"}, 78,
         "'learning-rate' and 'lr' in " + (scratch_ / "twice.toml").string() + " are the same option");
  refuse({"--config", scratch_ / "twice.toml", "--config", scratch_ / "missing.toml"}, 64,
         "--config is given twice");
}

TEST_F(BadRun, ImagesTooSmallForTheModel_78) {
  refuse({"--image-size", "4"}, 78, "images of 4 pixels are too small: use --image-size 6 or more\n");
}

TEST_F(BadRun, NoGpu_78) { refuse({"--device", "cuda"}, 78, "use --device cpu"); }

TEST_F(BadRun, UnwritableRunDirectory_78) {
  refused(mnist_run("/proc/rekindle", 1, 2), 78, "use a --run-dir that can be written");
  std::ofstream(scratch_ / "file") << "x";
  refused(mnist_run(scratch_ / "file" / "run", 1, 2), 78, "use a --run-dir that can be written");
}

TEST_F(BadRun, BadData_78) {
  const auto with_data = [&](const std::string& model, const fs::path& data, const std::string& what) {
    refused(
        {"local", "--run-dir", dir(), "--model", model, "--data", data, "--batch-size", "8", "--steps", "1"},
        78, what);
    EXPECT_FALSE(fs::exists(dir()));
  };
  with_data("vgg11", scratch_ / "nowhere", "nowhere");
  with_data("vgg11", mnist_data(), "data_batch_1.bin");

  const fs::path cifar = scratch_ / "cifar";
  fs::copy(cifar_data(), cifar);
  fs::resize_file(cifar / "data_batch_2.bin", 3073 * 3 - 1);
  with_data("vgg11", cifar, "data_batch_2.bin");
  fs::copy(cifar_data() / "data_batch_2.bin", cifar / "data_batch_2.bin",
           fs::copy_options::overwrite_existing);
  std::fstream(cifar / "test_batch.bin", std::ios::in | std::ios::out | std::ios::binary).put(10);
  with_data("vgg11", cifar, "test_batch.bin");

  const fs::path mnist = scratch_ / "mnist";
  fs::copy(mnist_data(), mnist);
  fs::resize_file(mnist / "train-images-idx3-ubyte", 1000);
  with_data("mnist-cnn", mnist, "train-images-idx3-ubyte");
  fs::copy(mnist_data() / "t10k-images-idx3-ubyte", mnist / "train-images-idx3-ubyte",
           fs::copy_options::overwrite_existing);
  with_data("mnist-cnn", mnist, "train-");  // 200 images and 1000 labels
}

TEST_F(BadRun, BadImageFolder_78) {
  const auto with_folder = [&](const std::string& what) {
    refused({"local", "--run-dir", dir(), "--model", "resnet18", "--dataset", "image-folder", "--data",
             scratch_ / "images", "--steps", "1"},
            78, what);
    EXPECT_FALSE(fs::exists(dir()));
  };
  fs::create_directories(scratch_ / "images/only");
  with_folder("has only one class");
  fs::create_directories(scratch_ / "images/other");
  with_folder("has no JPEG or PNG files");
}

TEST_F(BadRun, FileAsRunDirectory_78) {
  std::ofstream(scratch_ / "file") << "x";
  refused(mnist_run(scratch_ / "file", 1, 2), 78, "file is a file, not a directory: ");
  for (const char* command : {"status", "inspect", "digest", "stop", "join"})
    refused({command, scratch_ / "file"}, 78, "file is a file, not a run directory");
  refused({"export", scratch_ / "file", scratch_ / "out.pt"}, 78, "file is a file, not a run directory");
  refused({"audit", scratch_ / "file", "--from", "0", "--to", "1"}, 78,
          "file is a file, not a run directory");
  EXPECT_FALSE(fs::exists(scratch_ / "out.pt"));
  EXPECT_EQ(*read_text(scratch_ / "file"), "x");
}

// As that of a job array, which has the batch script.
TEST_F(BadRun, FolderOfRuns_78AndNamesOne) {
  ASSERT_EQ(run(mnist_run(scratch_ / "runs" / "seed-1", 1, 2)).exit_code, 0);
  const std::string expected =
      str((scratch_ / "runs").string(), " is not a run directory, but has runs inside: give one of them, ",
          "such as ", (scratch_ / "runs/seed-1").string(), "; rekindle list ");
  for (const char* command : {"status", "inspect", "stop", "join"})
    refused({command, scratch_ / "runs"}, 78, expected);
  std::ofstream(scratch_ / "runs/job.sh") << "#!/bin/bash\n# Written by rekindle submit.\n";
  refused({"status", scratch_ / "runs"}, 78, expected);
}

TEST_F(BadRun, AnotherRunsDirectory_78AndUntouched) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 2)).exit_code, 0);
  const std::string before = *read_text(dir() / "run.toml"), digest = digest_of(dir());
  refused(mnist_run(dir(), 1, 4) + Arguments{"--seed", "9"}, 78,
          "seed is 1 in the run and 9 in this command");
  refused(mnist_run(dir(), 1, 4) + Arguments{"--batch-size", "32"}, 78,
          "--batch-size is 16 in the run and 32 in this command");
  refused(mnist_run(dir(), 1, 4) + Arguments{"--lr", "0.5"}, 78, "--change-lr");
  refused(mnist_run(dir(), 1, 4) + Arguments{"--dropout", "0"}, 78,
          "--dropout is the model's own in the run and 0.0 in this command");
  refused(mnist_run(dir(), 1, 4) + Arguments{"--seed", "9", "--lr", "0.5", "--batch-size", "32"}, 78,
          "belongs to another run: --batch-size is 16 in the run and 32 in this command; --lr is 1.0 in the "
          "run and 0.5 in this command; "
          "--seed is 1 in the run and 9 in this command: use the same options, or another --run-dir\n");
  refused({"local", "--run-dir", dir(), "--model", "vgg11", "--data", cifar_data(), "--batch-size", "16",
           "--steps", "4"},
          78, "belongs to another run");
  EXPECT_EQ(*read_text(dir() / "run.toml"), before);
  EXPECT_EQ(digest_of(dir()), digest);
}

TEST_F(BadRun, CheckpointsOfAnotherRunWithoutItsRunTomlOrWithAnother_78AndUntouched) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 2)).exit_code, 0);
  const std::string config = *read_text(dir() / "run.toml"), digest = digest_of(dir());
  fs::remove(dir() / "run.toml");
  refused(mnist_run(dir(), 1, 4) + Arguments{"--seed", "9"}, 78,
          "seed is 1 in the run and 9 in this command");
  refused(mnist_run(dir(), 1, 4) + Arguments{"--clip-norm", "2"}, 78,
          "--clip-norm is not set in the run and 2.0 in this command");
  EXPECT_FALSE(fs::exists(dir() / "run.toml"));
  std::string text = config;
  text.replace(text.find("\nseed = 1\n"), 10, "\nseed = 9\n");
  std::ofstream(dir() / "run.toml") << text;
  refused(mnist_run(dir(), 1, 4) + Arguments{"--seed", "9"}, 78, "belongs to another run: its seed differs");
  EXPECT_EQ(digest_of(dir()), digest);
}

TEST_F(BadRun, RunTomlIsLost_GoesOnWithTheRatesAndTheScheduleThatTheCheckpointsHave) {
  const Arguments cosine = {"--schedule", "cosine"}, slower = cosine + Arguments{"--lr", "0.5"};
  for (const char* name : {"run", "whole"}) {
    ASSERT_EQ(run(mnist_run(scratch_ / name, 1, 2) + cosine).exit_code, 0);
    ASSERT_EQ(run(mnist_run(scratch_ / name, 1, 4) + slower + Arguments{"--change-lr"}).exit_code, 0);
  }
  ASSERT_EQ(run(mnist_run(scratch_ / "whole", 1, 6) + slower).exit_code, 0);
  std::ofstream(scratch_ / "run/run.toml") << "seed = \n";
  refused(mnist_run(scratch_ / "run", 1, 6) + slower, 78,
          "put the file back from a copy, or remove it and give the run's own command again\n");
  fs::remove(scratch_ / "run/run.toml");
  const Outcome again = run(mnist_run(scratch_ / "run", 1, 6) + slower);
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_EQ(times_in(again.err, "run.toml is missing: the run goes on"), 1U) << again.err;
  EXPECT_EQ(digest_of(scratch_ / "run"), digest_of(scratch_ / "whole"));
}

TEST_F(BadRun, EndBeforeTheStepThatIsReached_78) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 4)).exit_code, 0);
  refused(mnist_run(dir(), 1, 3), 78, "the run is at step 4 already, its end would be step 3: use --steps 4");
}

TEST_F(BadRun, CompleteRun_SaysSoAndDoesNothing) {
  ASSERT_EQ(run(mnist_run(dir(), 2, 3)).exit_code, 0);
  const Outcome again = run(mnist_run(dir(), 3, 3));
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_NE(again.out.find("the run is complete: 3 steps, digest " + digest_of(dir()).substr(0, 32)),
            std::string::npos)
      << again.out;
}

TEST_F(BadRun, HeldByALiveRun_78AndTheHolderGoesOn) {
  Program holder(Arguments{rekindle()} + mnist_run(dir(), 1, 100000));
  ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= 3; }));
  refused(mnist_run(dir(), 1, 100000), 78, "is held by a live run");
  const std::uint64_t step = reached_step(dir());
  EXPECT_TRUE(eventually([&] { return reached_step(dir()) > step + 3; }));
  holder.signal(SIGUSR1);
  EXPECT_EQ(holder.wait().exit_code, 75);
}

TEST_F(BadRun, NonFiniteLoss_70WithoutACommitOfIt) {
  const Outcome outcome = run(mnist_run(dir(), 2, 50) + Arguments{"--optimizer", "sgd", "--lr", "1e30"});
  EXPECT_EQ(outcome.exit_code, 70) << outcome.err;
  EXPECT_NE(outcome.err.find("is not finite"), std::string::npos) << outcome.err;
  EXPECT_EQ(run({"digest", dir()}).exit_code, 78);  // no checkpoint is committed
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
}

TEST(Tools, ThingsThatAreNotRuns_78) {
  const Scratch scratch;
  for (const char* command : {"status", "inspect", "digest"})
    refused({command, scratch / "none"}, 78, "none");
  refused({"export", scratch / "none", scratch / "out.safetensors"}, 78, "");
  EXPECT_FALSE(fs::exists(scratch / "out.safetensors"));
}

}  // namespace
}  // namespace rekindle::process_test
