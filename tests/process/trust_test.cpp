// Run directories that another user has made, or has had a hand in. Two users take root: it gives files away.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "../needs.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "live_run.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

constexpr uid_t kSomebodyElse = 12345;

class TrustedDirectory : public LiveRun {
 protected:
  // A script in place of a program: it tells that it was executed.
  void plant_program() const {
    fs::create_directories(dir() / "bin");
    fs::remove(dir() / "bin/rekindle");
    std::ofstream(dir() / "bin/rekindle") << "#!/bin/sh\ntouch " << (scratch_ / "executed").string() << "\n";
    fs::permissions(dir() / "bin/rekindle", fs::perms(0755));
  }
  bool executed() const { return fs::exists(scratch_ / "executed"); }
  static void give_away(const fs::path& path) {
    ASSERT_EQ(::lchown(path.c_str(), kSomebodyElse, kSomebodyElse), 0);
  }
  static bool two_users() { return ::geteuid() == 0; }
  fs::path victim() const { return scratch_ / "authorized_keys"; }
};

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
      EXPECT_NE(outcome.exit_code, 0) << command.front();
      EXPECT_FALSE(executed()) << command.front() << " " << theirs;
      if (command.front() == "slurm") continue;  // it says first that it is in no job
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
    EXPECT_NE(outcome.err.find("chmod go-w"), std::string::npos) << outcome.err;
    EXPECT_FALSE(executed());
    fs::permissions(open, fs::perms::group_write, fs::perm_options::remove);
  }
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
  EXPECT_EQ(run({"inspect", other, "--verify"}).exit_code, 0);
}

// As when the storage is away: the run trains on, and saves once its directory is back.
TEST_F(TrustedDirectory, MovedAwayInMidRun_NothingIsWrittenIntoALookAlikeOfAnotherUser) {
  if (!two_users()) REKINDLE_SKIP(Needs::kRoot, "only root can be two users");
  ASSERT_NO_FATAL_FAILURE(begin(1, {"--checkpoint-every", "2"}));
  const fs::path away = scratch_ / "away", look_alike = scratch_ / "look-alike";
  for (const char* folder : {"checkpoints", "logs", "terms", "key"})
    fs::create_directories(look_alike / folder);
  for (const auto& entry : fs::directory_iterator(look_alike)) {
    fs::permissions(entry.path(), fs::perms(0777));
    give_away(entry.path());
  }
  fs::permissions(look_alike, fs::perms(0777));
  give_away(look_alike);
  fs::rename(dir(), away);
  fs::rename(look_alike, dir());
  // Logs are written through descriptors that are open.
  ASSERT_TRUE(eventually([&] {
    return read_text(run::Layout(away).log("coordinator")).value_or("").find("belongs to user") !=
           std::string::npos;
  }));
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir())) files += entry.is_directory() ? 0 : 1;
  EXPECT_EQ(files, 0U);
  fs::rename(dir(), look_alike);
  fs::rename(away, dir());
  stop_and_compare();
}

TEST_F(TrustedDirectory, ParentThatOthersMayChange_IsWarnedOf) {
  fs::create_directories(scratch_ / "shared");
  fs::permissions(scratch_ / "shared", fs::perms(0777));
  const Outcome warned = run(mnist_run(scratch_ / "shared/run", 1, 1));
  EXPECT_EQ(warned.exit_code, 0) << warned.err;
  EXPECT_NE(warned.err.find("other users may change " + (scratch_ / "shared").string()), std::string::npos)
      << warned.err;
  fs::permissions(scratch_ / "shared", fs::perms(01777));  // as /tmp
  EXPECT_EQ(run(mnist_run(scratch_ / "shared/run", 1, 2)).err.find("other users may change"),
            std::string::npos);
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
}

}  // namespace
}  // namespace rekindle::process_test
