// The programs and libraries that a run keeps, and a node that lacks a library.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "../needs.hpp"
#include "base/command.hpp"
#include "base/files.hpp"
#include "base/libraries.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

fs::path programs() { return fs::path(rekindle()).parent_path(); }

// `arguments` in a mount namespace where LibTorch's folder of the build is empty.
CommandOutput without_torch(const Arguments& arguments) {
  const Arguments hide{"unshare",     "--mount", "sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\"",
                       REKINDLE_TORCH};
  const auto output = run_command(hide + arguments, std::chrono::minutes(5));
  return output ? *output : CommandOutput{{}, "", output.error().line()};
}

class KeptPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto able = run_command({"unshare", "--mount", "true"}, std::chrono::seconds(10));
    if (!able || !able->ok()) REKINDLE_SKIP(Needs::kOwnMounts, "cannot make a mount namespace");
  }
  Scratch scratch_;
};

// Each file is in its own place, as in the build tree. A build that was moved completely finds its LibTorch.
TEST_F(KeptPrograms, BuildTreeThatWasMoved_FindsItsLibraries) {
  const fs::path bin = scratch_ / "moved" / "build" / "dev" / "bin";
  fs::create_directories(bin);
  fs::copy(programs() / "rekindle-trainer", bin / "rekindle-trainer");
  fs::copy_symlink(programs() / "lib", bin / "lib");
  EXPECT_FALSE(libraries_of(bin / "rekindle-trainer"));
  fs::create_directories(scratch_ / "moved" / "build" / "torch");
  fs::create_directory_symlink(REKINDLE_TORCH, scratch_ / "moved" / "build" / "torch" / "torch");
  const auto found = libraries_of(bin / "rekindle-trainer");
  ASSERT_TRUE(found) << found.error().line();
}

// Files near a run directory may belong to another user: a kept program searches for libraries only in its
// own lib/.
TEST_F(KeptPrograms, LibrariesNearARunDirectory_AreNotLoaded) {
  const fs::path bin = scratch_ / "shared" / "run" / "bin",
                 planted = scratch_ / "shared" / "torch" / "torch" / "lib";
  fs::create_directories(bin);
  fs::create_directories(planted);
  for (const char* name : {"rekindle", "rekindle-control", "rekindle-trainer"}) {
    fs::copy(programs() / name, bin / name);
    const auto before = libraries_of(programs() / name);
    ASSERT_TRUE(before) << before.error().line();
    for (const Library& library : *before) {
      std::error_code exists;
      fs::copy(library.path, planted / library.name, exists);
    }
    const auto found = libraries_of(bin / name);
    if (!found) continue;  // LibTorch was not found, as intended
    for (const Library& library : *found)
      EXPECT_FALSE(
          library.path.lexically_normal().string().starts_with((scratch_ / "shared" / "torch").string()))
          << name << " loads " << library.path;
  }
}

// An empty entry in a program's path of libraries is the current folder.
TEST_F(KeptPrograms, LibrariesOfTheCurrentFolder_AreNotLoaded) {
  for (const char* name : {"libm.so.6", "libc.so.6", "libstdc++.so.6", "libcaf_core.so.0.17.6", "libc10.so"})
    std::ofstream(scratch_ / name) << "no library";
  const auto folder = open_file(programs(), O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(folder);
  const fs::path before = fs::current_path();
  for (const char* program : {"rekindle", "rekindle-control", "rekindle-trainer"}) {
    fs::current_path(scratch_.path());
    const auto output =
        run_command({programs() / program, "--help"}, std::chrono::minutes(1), {{}, folder->get()});
    fs::current_path(before);
    ASSERT_TRUE(output) << output.error().line();
    EXPECT_TRUE(output->ok()) << program << ": " << output->err;
  }
}

TEST_F(KeptPrograms, LibTorchOfTheBuildIsGone_TheRunGoesOnWithWhatItKept) {
  const fs::path dir = scratch_ / "run";
  const Arguments submit = mnist_job("submit", dir, 3);
  // This Slurm refuses all jobs: submit fails after it has kept the programs.
  const fs::path slurm = scratch_ / "slurm";
  fs::create_directories(slurm);
  std::ofstream(slurm / "sbatch") << "#!/bin/sh\nexit 1\n";
  std::ofstream(slurm / "scontrol") << "#!/bin/sh\necho 'KillWait = 30 sec'\n";
  for (const char* name : {"sbatch", "scontrol"}) fs::permissions(slurm / name, fs::perms::owner_all);
  const std::string path = str("PATH=", slurm.string(), ":/usr/bin:/bin");
  EXPECT_NE(run_command(Arguments{"env", path, rekindle()} + submit, std::chrono::minutes(5))->status.code,
            0);
  const fs::path kept = dir / "bin";
  ASSERT_TRUE(fs::exists(kept / "lib" / "libtorch_cpu.so"));
  const auto libraries = libraries_of(kept / "rekindle-trainer");
  ASSERT_TRUE(libraries) << libraries.error().line();
  for (const Library& library : *libraries) {
    if (library.name.starts_with("libtorch") || library.name.starts_with("libc10")) {
      EXPECT_EQ(library.path.lexically_normal().parent_path(), fs::canonical(kept) / "lib");
    }
  }
  const CommandOutput done =
      without_torch(Arguments{kept / "rekindle"} + mnist_run(scratch_ / "other", 1, 3));
  EXPECT_TRUE(done.ok()) << done.out << done.err;
}

TEST_F(KeptPrograms, NodeWithoutLibTorch_OneLineThatNamesNodeAndLibrary) {
  const CommandOutput refused = without_torch(Arguments{rekindle()} + mnist_run(scratch_ / "run", 2, 3));
  EXPECT_EQ(refused.status.code, 78) << refused.out << refused.err;
  std::string host(256, '\0');
  ::gethostname(host.data(), host.size());
  EXPECT_NE(refused.err.find(str("node ", host.c_str(), ": rekindle-trainer needs libtorch_cpu.so")),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(times_in(refused.err, "\n"), 1U) << refused.err;
}

}  // namespace
}  // namespace rekindle::process_test
