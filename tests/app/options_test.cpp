#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"
#include "app/options.hpp"
#include "app/run_config.hpp"
#include "base/text.hpp"
#include "parse_words.hpp"

namespace rekindle::app {
namespace {

Result<LocalOptions> parsed(const Words& more) { return parse_words(more); }
protocol::Job job_of(const Words& more) { return job_in(parsed(more)); }

TEST(Options, MicroBatchesFollowFromTheBatch) {
  EXPECT_EQ(job_of({}).micro_batches, 16U);
  EXPECT_EQ(job_of({"--batch-size", "20"}).micro_batches, 2U);
  EXPECT_EQ(job_of({"--model", "mnist-cnn", "--workers", "7", "--threads", "2"}).micro_batches, 16U);
  EXPECT_EQ(job_of({"--micro-batches", "4"}).micro_batches, 4U);
}

TEST(Options, DataSetsAreThoseOfTheTable_AndFitTheModel) {
  EXPECT_EQ(job_of({}).task.augment, "crop");
  EXPECT_EQ(job_of({"--dataset", "image-folder"}).task.augment, "resized-crop");
  EXPECT_EQ(job_of({"--dataset", "image-folder", "--augment"}).task.augment, "resized-crop");
  EXPECT_EQ(job_of({"--augment", "--lr", "0.1"}).task.augment, "crop");
  EXPECT_EQ(job_of({"--augment", "resized-crop"}).task.augment, "resized-crop");
  EXPECT_EQ(job_of({"--augment", "off"}).task.augment, "off");
  EXPECT_EQ(job_of({"--model", "mnist-cnn"}).task.augment, "off");
  const auto refused = [](const Words& more) {
    const auto options = parsed(more);
    EXPECT_FALSE(options) << more[1];
    return options ? "" : options.error().line();
  };
  EXPECT_EQ(refused({"--dataset", "cifra10"}), "--dataset cifra10 is not known: did you mean cifar10?");
  EXPECT_EQ(refused({"--dataset", "text"}),
            "vgg11 trains on images, and text has none: use another --dataset");
  EXPECT_EQ(refused({"--augment", "crops"}), "--augment crops is not known: did you mean crop?");
  EXPECT_EQ(refused({"--dataset", "mnist", "--augment", "crop"}),
            "mnist has no augmentation: leave --augment out");
  EXPECT_TRUE(job_of({"--dataset", "image-folder", "--skip-corrupt"}).task.skip_corrupt);
  EXPECT_NE(protocol::identity_of(job_of({"--dataset", "image-folder", "--skip-corrupt"})),
            protocol::identity_of(job_of({"--dataset", "image-folder"})));
  EXPECT_EQ(refused({"--dataset", "cifar10", "--skip-corrupt"}),
            "--skip-corrupt is an option of image-folder, not of cifar10: leave it out");
  EXPECT_EQ(refused({"--dataset", "mnist", "--augment", "on"}),
            "mnist has no augmentation: leave --augment out");
}

TEST(Options, DefaultsAreTheOptimizers) {
  EXPECT_EQ(job_of({}).optimizer, "sgd");
  EXPECT_EQ(job_of({}).momentum, 0.9);
  EXPECT_EQ(job_of({}).weight_decay, 5e-4);
  EXPECT_EQ(job_of({"--optimizer", "adamw"}).weight_decay, 0.01);
  EXPECT_EQ(job_of({"--optimizer", "adamw"}).lr, 1e-3);
  EXPECT_EQ(job_of({"--optimizer", "adam"}).weight_decay, 0);
  EXPECT_EQ(job_of({"--optimizer", "rmsprop"}).lr, 0.01);
  EXPECT_EQ(job_of({"--optimizer", "rmsprop"}).momentum, 0);
  EXPECT_EQ(job_of({"--optimizer", "adadelta"}).eps, 1e-6);
  EXPECT_EQ(job_of({"--optimizer", "adam", "--eps", "1e-5"}).eps, 1e-5);
}

TEST(Options, WhatTheOptimizerOrTheScheduleDoesNotHave_IsRefused) {
  const auto refused = [](const Words& more) {
    const auto options = parsed(more);
    EXPECT_FALSE(options) << more[0];
    return options ? "" : options.error().line();
  };
  EXPECT_EQ(refused({"--beta1", "0.8"}),
            "--beta1 is not an option of sgd: leave it out; sgd has --momentum, --dampening, --nesterov");
  EXPECT_EQ(refused({"--optimizer", "adam", "--momentum", "0.8"}),
            "--momentum is not an option of adam: leave it out; adam has --beta1, --beta2, --eps");
  EXPECT_EQ(refused({"--optimizer", "adan"}), "--optimizer adan is not known: did you mean adam?");
  EXPECT_EQ(refused({"--schedule", "cosin"}), "--schedule cosin is not known: did you mean cosine?");
  EXPECT_EQ(refused({"--schedule", "multi-step"}),
            "--schedule multi-step without --milestones: add --milestones 30,60,80");
  EXPECT_EQ(refused({"--milestones", "3"}),
            "--milestones is not an option of --schedule step: add --schedule multi-step");
  EXPECT_EQ(refused({"--optimizer", "adam", "--eps", "0"}),
            "--eps 0: adam divides by it: use a small number like 1e-8");
  EXPECT_EQ(refused({"--ema", "1"}),
            "--ema 1 averages nothing: use a number between 0 and 1, or leave it out");
  EXPECT_EQ(refused({"--schedule", "multi-step", "--milestones", "3,x"}),
            "--milestones 3,x is not a list of epochs: write them as 30,60,80");
  EXPECT_EQ(refused({"--nesterov", "--momentum", "0"}),
            "--nesterov needs --momentum above 0 and no --dampening: as in torch.optim.SGD");
}

TEST(Options, BestMetric_IsOneThatEvaluationsReport) {
  EXPECT_EQ(job_of({"--keep-best", "--best-metric", "min:loss"}).best_metric, "min:loss");
  EXPECT_EQ(job_of({"--keep-best", "--best-metric", "top5"}).best_metric, "top5");
  const auto refused = parsed({"--keep-best", "--best-metric", "max:acuracy"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().line(), "--best-metric acuracy is not known: did you mean accuracy?");
  EXPECT_FALSE(parsed({"--best-metric", "loss"})) << "without --keep-best";
}

// Its loss may return more of them where it can be computed.
TEST(Options, BestMetricOfAScriptWhoseMetricsAreNotKnown_IsTaken) {
  RawOptions raw;
  raw.run_dir = "/runs/first";
  raw.steps = 1;
  raw.keep_best = true;
  raw.best_metric = "f1";
  ScriptDescription script;
  script.train_samples = 64;
  script.metrics = {"top1"};
  std::set<std::string> wrong;
  const auto refused = resolve_options(raw, {}, wrong, &script);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "--best-metric f1 is not known");
  script.metrics_known = false;
  const auto options = resolve_options(raw, {}, wrong, &script);
  ASSERT_TRUE(options) << options.error().line();
  EXPECT_EQ(options->job.best_metric, "f1");
}

TEST(Options, SpellingsOfPyTorchUsers) {
  EXPECT_EQ(job_of({"--batch_size", "64"}).batch_size, 64U);
  EXPECT_EQ(job_of({"--batch_size=64"}).batch_size, 64U);
  EXPECT_EQ(job_of({"--learning_rate", "0.5"}).lr, 0.5);
  EXPECT_EQ(job_of({"--learning-rate=0.5"}).lr, 0.5);
  EXPECT_EQ(job_of({"--wd", "0.25"}).weight_decay, 0.25);
  EXPECT_EQ(job_of({"--num_workers", "3"}).loader_threads, 3U);
  EXPECT_EQ(job_of({"--num-workers", "3"}).loader_threads, 3U);
  EXPECT_EQ(job_of({"--nproc_per_node=3"}).trainers_per_worker, 3U);
  EXPECT_EQ(job_of({"--arch", "mnist-cnn"}).task.model, "mnist-cnn");
}

// The nearest name of an option of ours would be another thing: --batch-size for --test-batch-size.
TEST(Options, WhatPyTorchsExamplesHaveBesides_IsAnswered) {
  for (const char* name : {"test-batch-size", "save-model", "no-accel", "no-cuda", "dist-backend", "backend"})
    EXPECT_NE(other_launchers_option(name), "") << name;
}

TEST(Options, MoreThreadsThanAnyMachineHas_AreRefused) {
  for (const char* option : {"--threads", "--loader-threads"}) {
    EXPECT_TRUE(parsed({option, "1024"})) << option;
    EXPECT_THROW(parsed({option, "1025"}), CLI::ValidationError) << option;
  }
  EXPECT_TRUE(parsed({"--loader-threads", "0"}));
}

TEST(Options, ValuesAndWhatIsForOthersKeepTheirUnderscores) {
  Words words = {"submit", "--run_dir", "my_run", "--data_dir=/a_b", "--", "--job_name=a_b"};
  use_usual_names(words);
  EXPECT_EQ(words, (Words{"submit", "--run-dir", "my_run", "--data=/a_b", "--", "--job_name=a_b"}));
}

TEST(Options, SpellingsInAFile) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "options.toml";
  std::ofstream(file) << "batch_size = 64\nlearning_rate = 0.5\n";
  const protocol::Job job = job_of({"--config", file});
  EXPECT_EQ(job.batch_size, 64U);
  EXPECT_EQ(job.lr, 0.5);
}

TEST(Options, ListsAndExactNumbersInAFile_AsOnTheCommandLine) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "options.toml";
  std::ofstream(file)
      << "\xEF\xBB\xBFschedule = \"multi-step\"\nmilestones = [3, 7]\nlr = 0.12345678901234567\n"
         "no-decay = [\"*.bias\", \"bn*\"]\n";
  const protocol::Job job = job_of({"--config", file});
  EXPECT_EQ(job.milestones, "3,7");
  EXPECT_EQ(job.lr, 0.12345678901234567);
  EXPECT_EQ(job.no_decay, job_of({"--no-decay", "*.bias", "--no-decay", "bn*"}).no_decay);
}

TEST(Options, ValuesInAFile_AreExpandedByTheirUsualNames) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "options.toml";
  std::ofstream(file) << "batch_size = \"%a\"\ndata = \"/data\"\n";
  CLI::App command("", "slurm");
  JobOptions options(command);
  options.expand_config([](const std::string& name, const std::string& value) {
    return name == "batch-size" && value == "%a" ? "48" : value;
  });
  command.parse(str("slurm --run-dir /runs/first --steps 1 --config ", file.string()), true);
  const auto resolved = options.resolve();
  ASSERT_TRUE(resolved) << resolved.error().line();
  EXPECT_EQ(resolved->job.batch_size, 48U);
  EXPECT_EQ(resolved->job.task.data, "/data");
}

TEST(Options, LettersBeyondAsciiInAFile) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "options.toml";
  std::ofstream(file) << "# größer\ndata = \"/größe/😀\"\n";
  const auto entries = read_config_file(file);
  ASSERT_TRUE(entries) << entries.error().line();
  EXPECT_EQ(entries->at(0).second, "/größe/😀");
}

TEST(RunConfig, AnyText_IsReadAsItWasWritten) {
  for (const char* text : {"/größe/😀", "a \"quoted\" 'größe'", "back\\slash\\ö", "two\nlines\tö"}) {
    protocol::Job job = job_of({});
    job.task.classes = job.train_samples = job.steps = 10;
    job.task.data = text;
    const auto again = parse_job(to_toml(job), "run.toml");
    ASSERT_TRUE(again) << again.error().line() << to_toml(job);
    EXPECT_EQ(again->task.data, text);
  }
}

TEST(Options, ExchangeIntegrityIsOnUnlessSwitchedOff) {
  EXPECT_TRUE(job_of({}).exchange_integrity);
  EXPECT_TRUE(job_of({"--exchange-integrity", "on"}).exchange_integrity);
  EXPECT_FALSE(job_of({"--exchange-integrity", "off"}).exchange_integrity);
  EXPECT_FALSE(parsed({"--exchange-integrity", "yes"}));
}

TEST(Device, AutoTakesAGpuThatCanBeUsed_AndSaysWhyNot) {
  const GpuState good{true, {}}, none{false, {}}, old{false, "the NVIDIA driver is for CUDA 12.4"};
  EXPECT_EQ(choose_device("auto", true, good).device, "cuda");
  for (const auto& [built, gpu] : {std::pair(true, none), {false, good}, {false, old}}) {
    EXPECT_EQ(choose_device("auto", built, gpu).device, "cpu");
    EXPECT_EQ(choose_device("auto", built, gpu).note, "");
  }
  EXPECT_EQ(choose_device("auto", true, old).device, "cpu");
  EXPECT_EQ(choose_device("auto", true, old).note, "on cpu: the NVIDIA driver is for CUDA 12.4");
  EXPECT_EQ(choose_device("cuda", true, old).device, "cuda");
  EXPECT_EQ(choose_device("cpu", true, good).device, "cpu");
}

TEST(Device, CudaWithoutAGpuOrWithAnOldDriver_IsRefusedWithTheReason) {
  protocol::Job job;
  job.device = "cuda";
  EXPECT_TRUE(check_device(job, {true, {}}));
  const Status none = check_device(job, {false, {}}), old = check_device(job, {true, "the driver is old"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ExitCode::kConfig);
  EXPECT_EQ(none.error().line(),
            "--device cuda: this machine has no GPU (no /dev/nvidia0 or the like): use --device cpu");
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, ExitCode::kConfig);
  EXPECT_EQ(old.error().line(), "--device cuda: the driver is old");
  job.device = "cpu";
  EXPECT_TRUE(check_device(job, {false, {}}));
}

TEST(Device, WhatNeedsAGpuOrABuildWithCuda_IsRefused) {
  const auto refused = [](const Words& more) {
    const auto options = parsed(more);
    EXPECT_FALSE(options) << more[0];
    return options ? "" : options.error().line();
  };
  EXPECT_EQ(refused({"--device", "cpu", "--exchange", "nccl"}),
            "--exchange nccl is for GPUs: use auto on CPUs, or --device cuda");
  EXPECT_EQ(refused({"--device", "cpu", "--precision", "tf32"}),
            "--precision tf32 is for GPUs: use fp32 or bf16 on CPUs, or --device cuda");
  if (!kCudaModels) {
    EXPECT_EQ(refused({"--device", "cuda"}),
              str(kCudaScripts ? "this build has CUDA for models in Python only" : "this build has no CUDA",
                  ": use --device cpu, or build the preset 'cuda'"));
  }
}

TEST(Options, GpuIsCuda) {
  const auto options = parsed({"--device", "gpu"});
  // Without a GPU or CUDA this is an error, but not an error about the word.
  if (options)
    EXPECT_EQ(options->job.device, "cuda");
  else
    EXPECT_EQ(options.error().code, ExitCode::kConfig) << options.error().line();
}

TEST(Options, DurationsAsPeopleWriteThem) {
  EXPECT_EQ(job_of({"--checkpoint-interval", "10m"}).checkpoint_interval_ms, 600000U);
  EXPECT_EQ(job_of({"--checkpoint-interval", "1h30m"}).checkpoint_interval_ms, 5400000U);
}

TEST(Options, SlowDataOrASlowScript_TheTrainersHaveLongerToComeUp) {
  auto options = parsed({});
  ASSERT_TRUE(options);
  allow_time_to_start(*options, std::chrono::seconds(20));
  EXPECT_EQ(options->job.gather_time_ms, 300'000U);
  allow_time_to_start(*options, std::chrono::seconds(200));
  EXPECT_EQ(options->job.gather_time_ms, 600'000U);
  options = parsed({"--gather-time", "30s"});
  ASSERT_TRUE(options);
  allow_time_to_start(*options, std::chrono::seconds(200));
  EXPECT_EQ(options->job.gather_time_ms, 30'000U) << "it was given";
}

}  // namespace
}  // namespace rekindle::app
