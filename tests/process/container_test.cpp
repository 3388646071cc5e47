// Workers and trainers in containers, each in a user namespace and a mount namespace of its own.
#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

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
  Arguments job(const std::string& name, int workers, std::uint64_t steps, bool contained,
                const Arguments& more = {}) const {
    Arguments arguments =
        Arguments{"local", "--run-dir", scratch_ / name, "--workers", str(workers), "--steps", str(steps)} +
        more;
    if (contained) arguments = arguments + Arguments{"--container", image_->path()};
    return arguments + (contained ? Arguments{script_, "contained"} : Arguments{script_});
  }
  // A program of the image that writes its name to a file, and ends.
  void plant(const fs::path& program) const {
    fs::create_directories(program.parent_path());
    std::ofstream(program) << "#!/bin/sh\necho \"$0\" >>'" << used().string() << "'\nexit 1\n";
    fs::permissions(program, fs::perms::owner_all);
  }
  fs::path used() const { return scratch_ / "used"; }
  // In the image, without Rekindle.
  Outcome inside(const Arguments& command) const {
    return Program(Arguments{"/usr/bin/env", "apptainer", "exec", "--bind", scratch_.path(), image_->path()} +
                   command)
        .wait();
  }
  std::optional<Image> image_;
  std::string script_;
};

// The memory that trainers of one machine exchange gradients through, as far as this process has mapped it:
// inodes. Its own is among them.
std::set<std::string> slots_of(pid_t pid) {
  std::set<std::string> inodes;
  std::ifstream maps(str("/proc/", pid, "/maps"));
  for (std::string range, mode, offset, device, inode, name;
       maps >> range >> mode >> offset >> device >> inode;) {
    std::getline(maps, name);
    if (name.find("memfd:rekindle-slot") != std::string::npos) inodes.insert(inode);
  }
  return inodes;
}

bool share_slots(const std::vector<pid_t>& trainers) {
  if (trainers.size() != 2) return false;
  const auto first = slots_of(trainers[0]), second = slots_of(trainers[1]);
  return std::ranges::any_of(first, [&](const std::string& inode) { return second.contains(inode); });
}

TEST_F(InContainers, KilledJoinedStoppedAndResumed_SameBitsAsWithout) {
  const fs::path dir = scratch_ / "run";
  Program first(Arguments{rekindle()} + job("run", 2, 1000000, true));
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 20 || !first.running(); }));
  ASSERT_TRUE(first.running()) << first.wait().err;
  EXPECT_EQ(image_->starts("--describe"), 1);
  EXPECT_EQ(image_->starts("rekindle-control worker"), 2);
  ASSERT_TRUE(eventually([&] { return trainers_of(dir).size() == 2; }));
  const auto trainers = trainers_of(dir);
  EXPECT_FALSE(share_slots(trainers)) << "they are in two containers";
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

// --exchange shm: a run whose trainers cannot share memory ends.
TEST_F(InContainers, TrainersOfOneContainer_ShareMemoryThroughAKillAndAResume) {
  const Arguments two{"--trainers-per-worker", "2", "--exchange", "shm"};
  const fs::path dir = scratch_ / "run";
  Program first(Arguments{rekindle()} + job("run", 1, 1000000, true, two));
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 20 || !first.running(); }));
  ASSERT_TRUE(first.running()) << first.wait().err;
  EXPECT_EQ(image_->starts("rekindle-control worker"), 1);
  std::vector<pid_t> before;
  ASSERT_TRUE(eventually([&] { return share_slots(before = trainers_of(dir)) || !first.running(); }));
  ASSERT_TRUE(first.running()) << first.wait().err;
  ::kill(before.front(), SIGKILL);
  ASSERT_TRUE(eventually([&] {
    const auto now = trainers_of(dir);
    return (share_slots(now) && std::ranges::find(now, before.front()) == now.end()) || !first.running();
  }));
  ASSERT_TRUE(first.running()) << first.wait().err;
  first.signal(SIGUSR1);
  EXPECT_EQ(first.wait().exit_code, 75);

  const std::uint64_t steps = reached_step(dir) + 10;
  const Outcome resumed = run(job("run", 1, steps, true, two));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  EXPECT_EQ(last_metrics(dir).at("trainers"), 2);
  ASSERT_EQ(run(job("without", 1, steps, false)).exit_code, 0);
  EXPECT_EQ(digest_of(dir), digest_of(scratch_ / "without"));
}

TEST_F(InContainers, TrainersOfTwoContainers_CannotShareMemory) {
  const Outcome refused = run(job("run", 2, 10, true, {"--exchange", "shm"}));
  EXPECT_EQ(refused.exit_code, 78) << refused.out;
  EXPECT_NE(refused.err.find("--exchange shm is for one machine"), std::string::npos) << refused.err;
}

// Where programs and the package are in this installation, and where PATH and PYTHONPATH look.
TEST_F(InContainers, RekindleOfTheImage_IsNeverUsed) {
  const fs::path programs = fs::path(rekindle()).parent_path(), planted = scratch_ / "planted";
  for (const char* name : {"rekindle", "rekindle-control", "rekindle-trainer"}) {
    plant(planted / name);
    plant(image_->path() / "bin" / name);
  }
  Image::add(planted, programs);
  fs::create_directories(image_->path() / "packages" / "rekindle");
  std::ofstream(image_->path() / "packages" / "rekindle" / "__init__.py")
      << "open('" << used().string()
      << "', 'a').write('a package\\n')\nraise ImportError('another rekindle')\n";
  ::setenv("PATH", str("/image/bin:", std::getenv("PATH")).c_str(), 1);
  ::setenv("PYTHONPATH", "/image/packages", 1);
  const Outcome done = run(job("run", 2, 10, true));
  EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
  EXPECT_FALSE(fs::exists(used())) << read_text(used()).value_or("");

  // Without Rekindle's options, they are found.
  EXPECT_NE(inside({programs / "rekindle-control"}).exit_code, 0);
  EXPECT_NE(inside({"rekindle-control"}).exit_code, 0);
  EXPECT_NE(inside({"python3", "-c", "import rekindle"}).exit_code, 0);
  ::unsetenv("PYTHONPATH");
  EXPECT_EQ(read_text(used()).value_or(""),
            str((programs / "rekindle-control").string(), "\n/image/bin/rekindle-control\na package\n"));
}

// The site lets no user mount folders, and the same path has a rekindle in the image, too.
TEST_F(InContainers, ProgramsOfAnotherBuildInTheirPlace_AreRefusedBeforeAnythingBegins) {
  const fs::path programs = fs::path(rekindle()).parent_path(), planted = scratch_ / "planted";
  fs::create_directories(planted);
  for (const char* name : {"rekindle", "rekindle-control"}) fs::copy_file(programs / name, planted / name);
  Image::add(planted, programs);
  Image::mount_nothing();
  const Arguments begin = mnist_job("local", scratch_ / "run", 2) + Arguments{"--container", image_->path()};
  std::ofstream(planted / "rekindle", std::ios::app) << "another build";
  const Outcome refused = run(begin);
  EXPECT_EQ(refused.exit_code, 78) << refused.out;
  EXPECT_EQ(times_in(refused.err, "\n"), 1U) << refused.err;
  EXPECT_NE(refused.err.find(str((programs / "rekindle").string(), " in ", image_->path().string(),
                                 " is of another build of rekindle than this one")),
            std::string::npos)
      << refused.err;
  EXPECT_FALSE(fs::exists(scratch_ / "run"));
  EXPECT_EQ(image_->starts("rekindle-control"), 0);
}

// An interpreter of the image that gets another PYTHONPATH than this one gives it.
TEST_F(InContainers, PackageOfAnotherBuildThatTheInterpreterImports_IsRefusedBeforeAnythingBegins) {
  const fs::path packages = image_->path() / "packages", interpreter = image_->path() / "python";
  fs::create_directories(packages);
  fs::copy(fs::path(rekindle()).parent_path() / "python" / "rekindle", packages / "rekindle",
           fs::copy_options::recursive);
  std::ofstream(interpreter) << "#!/bin/sh\nPYTHONPATH=/image/packages exec python3 \"$@\"\n";
  fs::permissions(interpreter, fs::perms::owner_all);
  const Arguments more{"--python", "/image/python"};
  const Outcome same = run(job("same", 1, 2, true, more));
  EXPECT_EQ(same.exit_code, 0) << "the same build at another place: " << same.out << same.err;
  const int workers = image_->starts("rekindle-control worker");

  std::ofstream(packages / "rekindle" / "librekindle.so", std::ios::app) << "another build";
  const Outcome refused = run(job("run", 1, 2, true, more));
  EXPECT_EQ(refused.exit_code, 78) << refused.out;
  EXPECT_EQ(times_in(refused.err, "\n"), 1U) << refused.err;
  EXPECT_NE(
      refused.err.find(str("/image/python in ", image_->path().string(), " has another build of rekindle (")),
      std::string::npos)
      << refused.err;
  EXPECT_FALSE(fs::exists(scratch_ / "run"));
  EXPECT_EQ(image_->starts("rekindle-control worker"), workers);
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
