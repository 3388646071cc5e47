// Workers and trainers in containers, each in a user namespace and a mount namespace of its own.
#include <algorithm>
#include <fstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "container.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

// Raises an exception outside of the container, if it must not be there.
constexpr const char* kScript = R"(
import os, sys
import torch, rekindle
if "contained" in sys.argv and not os.path.exists("/image/marker"):
    raise SystemExit("outside of the container")
generator = torch.Generator().manual_seed(1)
samples = torch.utils.data.TensorDataset(torch.randn(64, 8, generator=generator),
                                         torch.randint(0, 4, (64,), generator=generator))
rekindle.run(
    model=lambda: torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)),
    loss=lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1]),
    train_data=samples, batch_size=16, micro_batches=4, loader_threads=1)
)";

class InContainers : public Python {
 protected:
  void SetUp() override {
    Python::SetUp();
    if (IsSkipped()) return;
    if (const std::string why = Image::why_none(); !why.empty()) REKINDLE_SKIP(Image::needs(), why);
    const Outcome folders = Program({"/usr/bin/env", python_, "-c",
                                     "import sys; print(sys.prefix + ':' + sys.base_prefix, end='')"})
                                .wait();
    image_.emplace(REKINDLE_SOURCE, scratch_ / "image", folders.out);
    // In a container, the interpreter is what is called python3 there.
    ::setenv("PATH", str(fs::path(python_).parent_path().string(), ":", std::getenv("PATH")).c_str(), 1);
    script_ = script("train.py", kScript);
  }
  Arguments job(const std::string& name, int workers, std::uint64_t steps, bool contained) const {
    Arguments arguments{"local",      "--run-dir", scratch_ / name, "--workers",
                        str(workers), "--steps",   str(steps)};
    if (contained) arguments = arguments + Arguments{"--container", image_->path()};
    return arguments + (contained ? Arguments{script_, "contained"} : Arguments{script_});
  }
  std::optional<Image> image_;
  std::string script_;
};

TEST_F(InContainers, KilledJoinedStoppedAndResumed_SameBitsAsWithout) {
  const fs::path dir = scratch_ / "run";
  Program first(Arguments{rekindle()} + job("run", 2, 1000000, true));
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 20 || !first.running(); }));
  ASSERT_TRUE(first.running()) << first.wait().err;
  EXPECT_EQ(image_->starts("--describe"), 1);
  EXPECT_EQ(image_->starts("rekindle-control worker"), 2);
  ASSERT_TRUE(eventually([&] { return trainers_of(dir).size() == 2; }));
  const auto trainers = trainers_of(dir);
  ::kill(trainers.front(), SIGKILL);
  ASSERT_TRUE(eventually([&] {
    const auto now = trainers_of(dir);
    return now.size() == 2 && std::ranges::find(now, trainers.front()) == now.end();
  }));
  Program helper({rekindle(), "join", dir});
  ASSERT_TRUE(eventually([&] { return trainers_now(dir) == 3; }));
  EXPECT_EQ(image_->starts("rekindle-control worker"), 3);
  first.signal(SIGUSR1);
  EXPECT_EQ(first.wait().exit_code, 75);
  EXPECT_EQ(helper.wait().exit_code, 0);
  EXPECT_TRUE(eventually([&] { return processes_with(dir).empty(); }));

  const std::uint64_t steps = reached_step(dir) + 10;
  const Outcome resumed = run(job("run", 1, steps, true));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  ASSERT_EQ(run(job("without", 2, steps, false)).exit_code, 0);
  EXPECT_EQ(digest_of(dir), digest_of(scratch_ / "without"));
}

TEST_F(InContainers, NoImageAndNoRuntime_AreToldBeforeAnythingBegins) {
  const Arguments begin{"local", "--run-dir", scratch_ / "run", "--steps", "10", "--container"};
  const Outcome no_image = run(begin + Arguments{scratch_ / "none.sif", script_});
  EXPECT_EQ(no_image.exit_code, 78);
  EXPECT_NE(no_image.err.find("none.sif"), std::string::npos) << no_image.err;
  const Outcome no_runtime =
      run(begin + Arguments{image_->path(), "--container-runtime", "singularity", script_});
  EXPECT_EQ(no_runtime.exit_code, 78);
  EXPECT_NE(no_runtime.err.find("there is no singularity on PATH"), std::string::npos) << no_runtime.err;
  const Outcome unknown = run(begin + Arguments{image_->path(), "--container-runtime", "docker", script_});
  EXPECT_EQ(unknown.exit_code, 64) << unknown.err;
  EXPECT_FALSE(fs::exists(scratch_ / "run"));
}

TEST_F(InContainers, RunDirectoryBehindALinkInTheScriptsFolder_IsVisible) {
  const Scratch elsewhere;
  fs::create_directory_symlink(elsewhere.path(), scratch_ / "link");
  const Outcome done = run(job("link/run", 1, 2, true));
  EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
  EXPECT_TRUE(fs::exists(elsewhere / "run" / "run.toml"));
}

TEST_F(InContainers, ImageThatDoesNotStart_IsToldBeforeAnythingBegins) {
  const fs::path image = scratch_ / "broken.sif";
  std::ofstream(image) << "no image";
  const Outcome broken = run(mnist_job("local", scratch_ / "run", 2) + Arguments{"--container", image});
  EXPECT_EQ(broken.exit_code, 78);
  EXPECT_NE(broken.err.find("broken.sif: FATAL:   image format not recognized"), std::string::npos)
      << broken.err;
  EXPECT_FALSE(fs::exists(scratch_ / "run"));
}

TEST_F(InContainers, OfSrun_OnlyABatchJobCan) {
  const auto refused = [](const Arguments& arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
    const std::string line =
        str("rekindle ", arguments[0], " cannot start the containers of --container-runtime srun: ");
    EXPECT_NE(outcome.err.find(line), std::string::npos) << outcome.err;
  };
  refused(mnist_job("local", scratch_ / "run", 2) +
          Arguments{"--container", image_->path(), "--container-runtime", "srun"});
  EXPECT_FALSE(fs::exists(scratch_ / "run"));

  ASSERT_EQ(run(job("run", 1, 2, true)).exit_code, 0);
  std::string text = read_text(scratch_ / "run" / "run.toml").value_or("");
  ASSERT_NE(text.find("apptainer"), std::string::npos) << text;
  text.replace(text.find("apptainer"), std::string("apptainer").size(), "srun");
  std::ofstream(scratch_ / "run" / "run.toml") << text;
  refused({"join", scratch_ / "run"});
  refused({"audit", scratch_ / "run", "--from", "0", "--to", "2"});
}

}  // namespace
}  // namespace rekindle::process_test
