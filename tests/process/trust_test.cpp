// Run directories that another user has created or changed.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "../needs.hpp"
#include "base/command.hpp"
#include "base/copy_file.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "trust_fixture.hpp"

namespace rekindle::process_test {
namespace {

TEST_F(TrustedDirectory, OfAnotherUser_NothingInItIsExecuted) {
  if (!two_users()) REKINDLE_SKIP(Needs::kRoot, "only root can be two users");
  ASSERT_EQ(run(mnist_run(dir(), 1, 1)).exit_code, 0);
  plant_program();
  for (const fs::path& theirs : {dir(), dir() / "bin", dir() / "bin/rekindle"}) {
    give_away(theirs);
    Arguments slurm = mnist_run(dir(), 1, 3);
    slurm.front() = "slurm";
    for (const Arguments& command : {Arguments{"join", dir()}, mnist_run(dir(), 1, 3), slurm}) {
      const Outcome outcome = run(command);
      EXPECT_FALSE(executed()) << command.front() << " " << theirs;
      EXPECT_EQ(outcome.exit_code, 78) << command.front();
      EXPECT_NE(outcome.err.find("belongs to user"), std::string::npos) << outcome.err;
    }
    ASSERT_EQ(::chown(theirs.c_str(), 0, 0), 0);
  }
}

TEST_F(TrustedDirectory, ThatAnotherUserMayChange_NothingInItIsExecuted) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 1)).exit_code, 0);
  plant_program();
  for (const fs::path& open : {dir(), dir() / "bin", dir() / "bin/rekindle"}) {
    fs::permissions(open, fs::perms::group_write, fs::perm_options::add);
    const Outcome outcome = run({"join", dir()});
    EXPECT_EQ(outcome.exit_code, 78);
    EXPECT_NE(outcome.err.find("chmod -R go-w"), std::string::npos) << outcome.err;
    EXPECT_FALSE(executed());
    fs::permissions(open, fs::perms::group_write, fs::perm_options::remove);
  }
}

// With a umask of 002, as many sites have it.
TEST_F(TrustedDirectory, OutputOfAJobThatTheGroupMayChange_IsNoneOfTheRuns) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 2)).exit_code, 0);
  const fs::path output = dir() / "logs" / "slurm-7.out";
  std::ofstream(output) << "";
  fs::permissions(output, fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(run(mnist_run(dir(), 1, 4)).exit_code, 0);
  fs::permissions(dir() / "logs" / "coordinator.log", fs::perms::group_write, fs::perm_options::add);
  const Outcome refused = run(mnist_run(dir(), 1, 6));
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_NE(refused.err.find("coordinator.log can be changed by other users"), std::string::npos)
      << refused.err;
}

TEST_F(TrustedDirectory, LinkInPlaceOfAFileThatIsAppendedTo_RefusedAndItsTargetStaysAsItWas) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 1)).exit_code, 0);
  for (const char* name :
       {"logs/coordinator.log", "metrics.jsonl", "attempts.jsonl", "status.json", "run.toml"}) {
    std::ofstream(victim()) << "ssh-rsa AAAA victim\n";
    fs::rename(dir() / name, scratch_ / "kept");
    fs::create_symlink(victim(), dir() / name);
    const Outcome outcome = run(mnist_run(dir(), 1, 3));
    EXPECT_EQ(outcome.exit_code, 78) << name << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find("is a symbolic link"), std::string::npos) << outcome.err;
    EXPECT_EQ(read_text(victim()).value(), "ssh-rsa AAAA victim\n") << name;
    fs::rename(scratch_ / "kept", dir() / name);
  }
}

TEST_F(TrustedDirectory, LinkToAnotherRunsCheckpoint_IsNoCheckpointAndNothingBehindItIsDeleted) {
  const fs::path other = scratch_ / "other";
  ASSERT_EQ(run(mnist_run(other, 1, 2)).exit_code, 0);
  ASSERT_EQ(run(mnist_run(dir(), 1, 4)).exit_code, 0);
  fs::path theirs;
  for (const auto& entry : fs::directory_iterator(other / "checkpoints")) theirs = entry.path();
  fs::create_directory_symlink(theirs, dir() / "checkpoints" / theirs.filename());
  const Outcome outcome = run(mnist_run(dir(), 1, 8) + Arguments{"--checkpoint-every", "1", "--keep", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(fs::exists(theirs / "manifest.json"));
  EXPECT_FALSE(fs::is_symlink(dir() / "checkpoints" / theirs.filename())) << "the link itself goes";
  EXPECT_EQ(run({"inspect", other, "--verify"}).exit_code, 0);
}

// A program with a second name (a hard link) in a folder with the programs of another user.
TEST_F(TrustedDirectory, ProgramInAFolderOfAnotherUser_StartsNothingFromThere) {
  if (!two_users()) REKINDLE_SKIP(Needs::kRoot, "only root can be two users");
  fs::create_directories(scratch_ / "bin");
  ASSERT_TRUE(copy_file(rekindle(), scratch_ / "bin/rekindle", S_IRWXU));
  give_away(scratch_ / "bin");
  const Outcome refused = Program(Arguments{scratch_ / "bin/rekindle"} + mnist_run(dir(), 1, 1)).wait();
  EXPECT_EQ(refused.exit_code, 78) << refused.err;
  EXPECT_NE(refused.err.find("does not contain the program that was started from it"), std::string::npos)
      << refused.err;
}

TEST_F(TrustedDirectory, FolderFurtherUpThatOthersMayChange_IsWarnedOfOnceByEveryCommand) {
  const fs::path shared = scratch_ / "shared", real = shared / "mine/run", link = scratch_ / "link";
  fs::create_directories(real.parent_path());
  fs::permissions(shared, fs::perms(02775));  // like project folders
  fs::create_directory_symlink(real.parent_path(), link);
  const std::string warning = "other users may change " + shared.string() + ",";
  for (const fs::path& named : {real, link / "run"}) {
    for (const Arguments& command : {mnist_run(named, 1, 1), Arguments{"join", named}}) {
      const Outcome outcome = run(command);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_EQ(times_in(outcome.err, warning), 1U) << command.front() << ": " << outcome.err;
    }
  }
  fs::permissions(shared, fs::perms(02755));
  for (const Arguments& command : {mnist_run(real, 1, 2), Arguments{"join", real}})
    EXPECT_EQ(run(command).err.find("other users may change"), std::string::npos);
}

TEST_F(TrustedDirectory, ParentThatOthersMayChange_IsWarnedOf) {
  fs::create_directories(scratch_ / "shared");
  fs::permissions(scratch_ / "shared", fs::perms(0777));
  const Outcome warned = run(mnist_run(scratch_ / "shared/run", 1, 1));
  EXPECT_EQ(warned.exit_code, 0) << warned.err;
  EXPECT_NE(warned.err.find("other users may change " + (scratch_ / "shared").string()), std::string::npos)
      << warned.err;
  fs::permissions(scratch_ / "shared", fs::perms(01777));  // like /tmp
  EXPECT_EQ(run(mnist_run(scratch_ / "shared/run", 1, 2)).err.find("other users may change"),
            std::string::npos);
}

// The parent folder of the run directories of an array may be shared: Slurm must not run a file from there.
TEST_F(TrustedDirectory, JobScriptOfAnArrayIsExchangedAtOnce_TheOneThatWasWrittenIsSubmitted) {
  const fs::path slurm = scratch_ / "slurm", runs = scratch_ / "runs", got = scratch_ / "got";
  fs::create_directories(slurm);
  fs::create_directories(runs);
  std::ofstream(slurm / "scontrol") << "#!/bin/sh\necho SLURM_VERSION = 22.05\n";
  std::ofstream(slurm / "sbatch")
      << "#!/bin/sh\necho '#!/bin/sh theirs' > " << (runs / "job.sh").string()
      << "\nfor last; do :; done\ncase $last in -*) cat ;; *) cat \"$last\" ;; esac > " << got.string()
      << "\necho 7\n";
  for (const char* name : {"sbatch", "scontrol"}) fs::permissions(slurm / name, fs::perms(0755));
  const auto output =
      run_command(Arguments{"env", str("PATH=", slurm.string(), ":/usr/bin:/bin"), rekindle()} +
                      mnist_job("submit", runs / "seed-%a", 3) + Arguments{"--", "--array=1-2"},
                  std::chrono::minutes(1));
  ASSERT_TRUE(output && output->ok()) << output->out << output->err;
  EXPECT_NE(read_text(got).value().find("#SBATCH"), std::string::npos) << read_text(got).value();
  EXPECT_EQ(read_text(got).value().find("theirs"), std::string::npos);
}

TEST_F(TrustedDirectory, JobScriptByHand_IsNotReplaced_AndThatOfAnotherArrayIsToldOf) {
  const fs::path slurm = scratch_ / "slurm", runs = scratch_ / "runs";
  for (const fs::path& folder : {slurm, runs, runs / "one"}) fs::create_directories(folder);
  std::ofstream(slurm / "scontrol") << "#!/bin/sh\necho SLURM_VERSION = 22.05\n";
  std::ofstream(slurm / "sbatch") << "#!/bin/sh\ncat > /dev/null\necho 7\n";
  for (const char* name : {"sbatch", "scontrol"}) fs::permissions(slurm / name, fs::perms(0755));
  const auto submit = [&](const char* name, const Arguments& more) {
    return *run_command(Arguments{"env", str("PATH=", slurm.string(), ":/usr/bin:/bin"), rekindle()} +
                            mnist_job("submit", runs / name, 3) + more,
                        std::chrono::minutes(1));
  };
  const Arguments array{"--", "--array=1-2"};
  for (const fs::path& folder : {runs, runs / "one"}) {
    const fs::path script = folder / "job.sh";
    std::ofstream(script) << "#!/bin/bash\nby hand\n";
    const auto refused = folder == runs ? submit("seed-%a", array) : submit("one", {});
    EXPECT_EQ(refused.status.code, 78) << refused.out << refused.err;
    EXPECT_NE(refused.err.find(script.string() + " is not of rekindle submit: move it"), std::string::npos)
        << refused.err;
    EXPECT_EQ(read_text(script).value(), "#!/bin/bash\nby hand\n");
    fs::remove(script);
  }
  const char* warning = "/job.sh is of an array with another --run-dir";
  EXPECT_EQ(submit("seed-%a", array).out.find(warning), std::string::npos);
  EXPECT_EQ(submit("seed-%a", array).out.find(warning), std::string::npos) << "the same once more";
  const auto other = submit("other-%a", array);
  EXPECT_NE(other.out.find(warning), std::string::npos) << other.out << other.err;
  EXPECT_EQ(other.out.find("all tasks"), std::string::npos) << other.out;
  const auto same = submit("%A", array);
  EXPECT_NE(same.out.find("all tasks of the array have the same --run-dir"), std::string::npos) << same.out;
}

TEST_F(TrustedDirectory, OfAnotherUser_EveryCommandSaysWhoseItIs) {
  if (!two_users()) REKINDLE_SKIP(Needs::kRoot, "only root can be two users");
  ASSERT_EQ(run(mnist_run(dir(), 1, 2)).exit_code, 0);
  give_away(dir());
  for (const Arguments& command :
       {Arguments{"stop", dir()}, Arguments{"audit", dir(), "--from", "0", "--to", "2"},
        Arguments{"join", dir()}}) {
    const Outcome refused = run(command);
    EXPECT_EQ(refused.exit_code, 78) << command.front();
    EXPECT_NE(refused.err.find("belongs to"), std::string::npos) << command.front() << ": " << refused.err;
  }
  EXPECT_EQ(run({"status", dir()}).exit_code, 0);
}

TEST_F(TrustedDirectory, EverythingThatARunMakes_IsItsOwnersAlone) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 2)).exit_code, 0);
  for (const auto& entry : fs::recursive_directory_iterator(dir())) {
    const fs::perms open =
        entry.symlink_status().permissions() & (fs::perms::group_all | fs::perms::others_all);
    EXPECT_EQ(open, fs::perms::none) << entry.path();
  }
}

TEST_F(TrustedDirectory, InspectUntrusted_TellsWhatWouldBeExecutedOrFollowed) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 1)).exit_code, 0);
  fs::remove_all(dir() / "key");
  const Outcome clean = run({"inspect", "--untrusted", dir()});
  EXPECT_EQ(clean.exit_code, 0) << clean.out << clean.err;
  const std::string config = *read_text(dir() / "run.toml");
  const std::string list = "environment = [";
  std::string changed = config;
  changed.insert(changed.find(list) + list.size(), "\"OMP_DYNAMIC=x\\ny\",");
  std::ofstream(dir() / "run.toml") << changed;
  const Outcome environment = run({"inspect", "--untrusted", dir()});
  EXPECT_NE(environment.out.find("OMP_DYNAMIC=x\\ny"), std::string::npos)
      << environment.out << environment.err;
  std::ofstream(dir() / "run.toml") << config;
  plant_program();
  fs::create_symlink(victim(), dir() / "logs/linked.log");
  fs::permissions(dir() / "metrics.jsonl", fs::perms(0666));
  std::ofstream(dir() / "green\x1b[32m") << "x";
  const Outcome told = run({"inspect", "--untrusted", dir()});
  EXPECT_EQ(told.exit_code, 78);
  for (const char* words : {"bin: would be executed", "linked.log: a symbolic link",
                            "metrics.jsonl: other users can change it", "its name holds control characters"})
    EXPECT_NE(told.out.find(words), std::string::npos) << words << " is not in " << told.out;
  EXPECT_EQ(told.out.find('\x1b'), std::string::npos);
  EXPECT_FALSE(executed());
  EXPECT_EQ(run({"inspect", "--untrusted", "--json", dir()}).exit_code, 64) << "it has no JSON";
}

}  // namespace
}  // namespace rekindle::process_test
