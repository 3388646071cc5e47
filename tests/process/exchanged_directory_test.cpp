// Run directories that another user moves away or exchanges for others in mid-run.
#include <fcntl.h>

#include <csignal>
#include <fstream>

#include "../needs.hpp"
#include "base/command.hpp"
#include "base/files.hpp"
#include "base/libraries.hpp"
#include "run/layout.hpp"
#include "trust_fixture.hpp"

namespace rekindle::process_test {
namespace {

// As during an outage of the storage: the run continues to train, and saves when its directory is back.
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
  // Logs are written through open descriptors.
  ASSERT_TRUE(eventually([&] {
    return read_text(run::Layout(away).log("coordinator"))
               .value_or("")
               .find("another directory is in its place") != std::string::npos;
  }));
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir())) files += entry.is_directory() ? 0 : 1;
  EXPECT_EQ(files, 0U);
  fs::rename(dir(), look_alike);
  fs::rename(away, dir());
  stop_and_compare();
}

// The owner of the parent folder exchanges the run directory during the run. Processes that are started later
// run the original program of the run, and no other.
TEST_F(TrustedDirectory, ExchangedForATrapInMidRun_NoProgramOfItIsExecuted) {
  if (!two_users()) REKINDLE_SKIP(Needs::kRoot, "only root can be two users");
  ASSERT_NO_FATAL_FAILURE(keep_programs());
  give_away(scratch_.path());
  program_.emplace(Arguments{dir() / "bin/rekindle"} + mnist_run(dir(), 2, 1000000) +
                   Arguments{"--checkpoint-every", "5"});
  ASSERT_NO_FATAL_FAILURE(wait_for_step(5));
  const fs::path away = scratch_ / "away";
  as_somebody_else([&] { exchange_for_a_trap(away); });
  const pid_t coordinator = parts_of(dir(), "coordinator").at(0);
  ASSERT_NO_FATAL_FAILURE(kill_a_trainer());
  // The new trainer does not find its run, and reports that by its exit code.
  ASSERT_TRUE(eventually([&] { return logs_of(away).find("exit code 70") != std::string::npos; }))
      << logs_of(away);
  ::kill(coordinator, SIGKILL);
  const auto started_again = [&] {
    const auto now = parts_of(dir(), "coordinator");
    return !now.empty() && now.front() != coordinator;
  };
  EXPECT_TRUE(eventually([&] { return started_again() || executed(); })) << program_->printed();
  EXPECT_FALSE(executed());
  as_somebody_else([&] {
    fs::rename(dir(), scratch_ / "trap");
    fs::rename(away, dir());
  });
  stop_and_compare();
  EXPECT_FALSE(executed());
}

// Not even system libraries are searched by a path through the exchanged directory.
TEST_F(TrustedDirectory, ExchangedForATrapInMidRun_NoLibraryOfItIsLookedAt) {
  ASSERT_NO_FATAL_FAILURE(keep_programs());
  const fs::path bin = dir() / "bin", away = scratch_ / "away";
  const Fd held = open_file(bin, O_RDONLY | O_DIRECTORY).value();
  for (const char* name : {"rekindle", "rekindle-control", "rekindle-trainer"}) {
    const auto traced = run_command({bin / name}, std::chrono::minutes(1),
                                    {{{"LD_TRACE_LOADED_OBJECTS", "1"}, {"LD_DEBUG", "libs"}}, held.get()});
    ASSERT_TRUE(traced && traced->ok()) << name;
    EXPECT_EQ(traced->err.find("trying file=" + dir().string()), std::string::npos) << traced->err;
    EXPECT_NE(traced->err.find("trying file="), std::string::npos) << traced->err;
  }
  exchange_for_a_trap(away);
  const auto libraries = libraries_of(bin / "rekindle-trainer", held.get());
  EXPECT_TRUE(libraries) << libraries.error().line();
}

// Another directory of the same user: no file in it shows that the directory belongs to another run.
class ExchangedDirectory : public TrustedDirectory, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(By, ExchangedDirectory, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Link" : "Rename"; });

TEST_P(ExchangedDirectory, ForAnotherRunOfTheSameUser_NothingIsWrittenThere) {
  if (!two_users()) REKINDLE_SKIP(Needs::kRoot, "only root can be two users");
  const fs::path other = scratch_ / "other", away = scratch_ / "away";
  ASSERT_EQ(run(mnist_run(other, 2, 5)).exit_code, 0);
  give_away(scratch_.path());
  ASSERT_NO_FATAL_FAILURE(begin(2, {"--checkpoint-every", "2"}));
  const auto before = content_of(other);
  as_somebody_else([&] {
    fs::rename(dir(), away);
    GetParam() ? fs::create_directory_symlink(other, dir()) : fs::rename(other, dir());
  });
  const auto says = [&](const std::string& words) {
    return eventually([&] { return logs_of(away).find(words) != std::string::npos; });
  };
  ASSERT_TRUE(says("another directory is in its place")) << logs_of(away);
  ASSERT_NO_FATAL_FAILURE(kill_a_trainer());
  ASSERT_TRUE(says("exit code 70")) << logs_of(away);
  as_somebody_else([&] {
    GetParam() ? static_cast<void>(fs::remove(dir())) : fs::rename(dir(), other);
    fs::rename(away, dir());
  });
  EXPECT_EQ(content_of(other), before);
  const std::uint64_t step = reached_step(dir());
  wait_for_step(step + 3);
  EXPECT_EQ(content_of(other), before);
  stop_and_compare();
}

// As during an outage of the storage: processes that fail to start are started again.
TEST_P(ExchangedDirectory, WorkerAndCoordinatorKilledMeanwhile_BothComeBackWithTheDirectory) {
  if (!two_users()) REKINDLE_SKIP(Needs::kRoot, "only root can be two users");
  const fs::path other = scratch_ / "other", away = scratch_ / "away";
  fs::create_directories(other);
  fs::permissions(other, fs::perms(0700));
  give_away(scratch_.path());
  ASSERT_NO_FATAL_FAILURE(begin(2, {"--checkpoint-every", "2"}));
  as_somebody_else([&] {
    fs::rename(dir(), away);
    GetParam() ? fs::create_directory_symlink(other, dir()) : fs::rename(other, dir());
  });
  const pid_t coordinator = parts_of(dir(), "coordinator").at(0), worker = parts_of(dir(), "worker").at(0);
  ::kill(worker, SIGKILL);
  ::kill(coordinator, SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const std::string printed = program_->printed();
    return printed.find("another directory is in its place") != std::string::npos;
  })) << program_->printed();
  as_somebody_else([&] {
    GetParam() ? static_cast<void>(fs::remove(dir())) : fs::rename(dir(), other);
    fs::rename(away, dir());
  });
  EXPECT_TRUE(eventually([&] { return parts_of(dir(), "trainer").size() == 2; })) << program_->printed();
  wait_for_step(reached_step(dir()) + 3);
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
