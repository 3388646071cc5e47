// Files of a run directory that are well-formed but wrong, or longer than in any run.
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "../read_lines.hpp"
#include "run/place.hpp"
#include "run/records.hpp"
#include "run/status_file.hpp"
#include "run/stop_request.hpp"
#include "run/trust.hpp"
#include "run_directory_fixture.hpp"

namespace rekindle::run {
namespace {

class WrongFiles : public RunDirectory {
 protected:
  void SetUp() override { fs::create_directories(layout_.terms().path()); }
  void write(const FilePath& file, const std::string& text) const { std::ofstream(file.path()) << text; }
  std::string claim_refusal(const std::string& text) const {
    write(layout_.terms() / "0001", text);
    const auto newest = newest_term(layout_);
    if (newest) return "";
    EXPECT_EQ(newest.error().code, ExitCode::kConfig);
    return newest.error().line();
  }
};

TEST_F(WrongFiles, AClaimWithAWrongField_NamesFileAndField) {
  const std::string file = (layout_.terms() / "0001").string();
  for (const auto& [text, field] : {std::pair<std::string, std::string>{R"({"host":5})", "host"},
                                    {R"({"pid":-1})", "pid"},
                                    {R"({"start_ticks":1.5})", "start_ticks"},
                                    {R"({"slurm_restarts":"2"})", "slurm_restarts"},
                                    {R"({"supervisor_pid":[]})", "supervisor_pid"}})
    EXPECT_TRUE(claim_refusal(text).starts_with(str(file, ": field '", field, "' is not a "))) << text;
  EXPECT_NE(claim_refusal(std::string(300000, '[')).find(file), std::string::npos);
  EXPECT_NE(claim_refusal(R"({"a":)" + std::string(30000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_NE(claim_refusal("").find("is not a JSON object: remove it if no run uses"), std::string::npos);
  // As long as such a file exists, no process claims the run, and no process crashes.
  const auto claimed = claim();
  ASSERT_FALSE(claimed);
  EXPECT_EQ(claimed.error().code, ExitCode::kConfig);
}

TEST_F(WrongFiles, ATermThatNoRunReaches_IsRefusedAndOtherNamesAreNoTerms) {
  ASSERT_EQ(claim().value_or(0), 1U);
  for (const char* name : {"00002", "2", "99999999999999999999999", "0003.tmp", "0x10", "-001"})
    write(layout_.terms() / name, "{}");
  EXPECT_EQ(newest_term(layout_).value().value().term, 1U);
  write(layout_.terms() / "18446744073709551615", "{}");
  const auto newest = newest_term(layout_);
  ASSERT_FALSE(newest);
  EXPECT_EQ(newest.error().code, ExitCode::kConfig);
  EXPECT_NE(newest.error().line().find("18446744073709551615: there are no terms above 999999999999"),
            std::string::npos)
      << newest.error().line();
}

TEST_F(WrongFiles, ThePlaceOfACoordinatorThatIsNone_IsNoPlace) {
  write(layout_.coordinator(), R"({"term":1,"host":"127.0.0.1","port":4000})");
  EXPECT_TRUE(read_place(layout_));
  for (const char* text :
       {R"({"term":"1","host":"127.0.0.1","port":4000})", R"({"term":1,"host":5,"port":4000})",
        R"({"term":1,"host":"127.0.0.1","port":70000})", R"({"term":1,"host":"127.0.0.1","port":-1})",
        R"({"term":18446744073709551615,"host":"127.0.0.1","port":4000})",
        R"({"term":9000000000000000000,"host":"127.0.0.1","port":4000})", "[]", "{}"}) {
    write(layout_.coordinator(), text);
    EXPECT_FALSE(read_place(layout_)) << text;
  }
}

TEST_F(WrongFiles, AStatusWithAWrongField_NamesFileAndField) {
  const auto refusal = [this](const std::string& text) {
    write(layout_.status(), text);
    const auto status = read_status(layout_);
    return status ? "" : status.error().line();
  };
  const std::string file = layout_.status().string();
  EXPECT_EQ(refusal(R"({"state":5})"),
            file + ": field 'state' is not a text: remove the file; the run writes a new one");
  EXPECT_NE(refusal(R"({"trainers":[{"rank":"0"}]})").find("entry 1 of 'trainers': field 'rank'"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"trainers":5})").find("field 'trainers' is not a list of objects"),
            std::string::npos);
  EXPECT_NE(refusal("{\"a\":" + std::string(300000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_EQ(refusal(R"({"state":"running","loss":null,"step":7,"trainers":[{"rank":-1}]})"), "");
  EXPECT_EQ(refusal(""), "") << "it is written without fsync: a crash leaves it empty";
  fs::resize_file(layout_.status().path(), std::uint64_t{1} << 40);
  EXPECT_NE(read_status(layout_).error().what.find("more than 16.8 MB"), std::string::npos);
  fs::remove(layout_.status().path());
  EXPECT_TRUE(read_status(layout_).value().empty());
}

// As a file of another user, which root could read.
TEST_F(WrongFiles, AStatusThatCannotBeOpened_IsNotNone) {
  ASSERT_EQ(::mknod(layout_.status().path().c_str(), S_IFSOCK | 0600, 0), 0);
  const auto status = read_status(layout_);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().line().find("cannot open " + layout_.status().string()), std::string::npos)
      << status.error().line();
}

TEST_F(WrongFiles, StopRequests_ThoseOfOlderAttemptsAndFilesThatAreNoneAreRemoved) {
  const auto stays = [this](const std::string& text) {
    write(layout_.stop_request(), text);
    forget_stop_request(layout_, "old");
    return fs::exists(layout_.stop_request().path());
  };
  EXPECT_TRUE(stays("new"));
  EXPECT_FALSE(stays("old"));
  EXPECT_FALSE(stays(std::string(kMostOfANote + 1, 'x')));
  forget_stop_request(layout_, "old");  // there is none
  ASSERT_EQ(::mknod(layout_.stop_request().path().c_str(), S_IFSOCK | 0600, 0), 0);
  forget_stop_request(layout_, "old");
  EXPECT_TRUE(fs::exists(layout_.stop_request().path())) << "it cannot be opened";
}

TEST_F(WrongFiles, LinesOfRecordsWithWrongFields_AreLeftOut) {
  const std::string good = R"({"event":"begin","step":3,"number":1})";
  std::string lines = good + "\n";
  for (const char* bad :
       {R"({"event":5})", R"({"step":-1})", R"({"step":1.5})", R"({"number":"1"})", R"({"requeued":1})",
        R"({"test_accuracy":null,"test_loss":1,"step":2})", R"({"at":[]})", "[]", "5", "null"})
    lines += std::string(bad) + "\n";
  lines += R"({"deep":)" + std::string(300000, '[') + std::string(300000, ']') + "}\n";
  lines += R"({"long":")" + std::string(2 << 20, 'x') + "\"}\n" + good + "\n";
  for (const FilePath& file : {layout_.attempts(), layout_.metrics()}) {
    write(file, lines);
    EXPECT_EQ(read_lines(file).size(), 2U);
  }
  EXPECT_EQ(next_attempt(layout_), 3U);
  EXPECT_FALSE(last_evaluation(layout_));
}

TEST_F(WrongFiles, StepsThatNoRunReaches_AreNoSteps) {
  write(layout_.metrics(), "{\"step\":1,\"loss\":1}\n{\"step\":18446744073709551615,\"loss\":1}\n");
  EXPECT_EQ(recorded(layout_).step, 1U);
}

// Lines and holes of any length need little memory, and the lines after them are read.
TEST_F(WrongFiles, AHoleInTheRecords_IsOneLineThatIsLeftOut) {
  const std::string line = R"({"step":1,"loss":1})";
  write(layout_.metrics(), line + "\n");
  fs::resize_file(layout_.metrics().path(), std::uint64_t{64} << 20);
  std::ofstream(layout_.metrics().path(), std::ios::app) << "\n" << line << "\n";
  EXPECT_EQ(read_lines(layout_.metrics()).size(), 2U);
  // The next append removes an incomplete last line.
  fs::resize_file(layout_.metrics().path(), std::uint64_t{128} << 20);
  ASSERT_TRUE(MetricsFile(layout_).append({{"step", 2}}));
  EXPECT_EQ(read_lines(layout_.metrics()).back().value("step", 0), 2);
  EXPECT_LT(fs::file_size(layout_.metrics().path()), std::uint64_t{65} << 20);
}

// Most often all files of a copy have the wrong modes.
TEST_F(WrongFiles, ModesOfKeysAndFiles_AreMendedByOneCommandEach) {
  fs::create_directories(layout_.keys().path());
  write(layout_.key_pair(), "secret");
  write(layout_.metrics(), "");
  const auto remedy = [this](const FilePath& open, fs::perms mode) {
    fs::permissions(open.path(), mode);
    const Status checked = check_trusted(layout_);
    fs::permissions(open.path(), fs::perms::owner_all);
    return checked ? "" : checked.error().hint;
  };
  const fs::perms read = fs::perms::owner_all | fs::perms::group_read,
                  change = fs::perms::owner_all | fs::perms::group_write;
  fs::permissions(layout_.key_pair().path(), fs::perms::owner_all);
  EXPECT_EQ(remedy(layout_.keys(), read), str("chmod -R go-rwx ", layout_.keys().string()));
  EXPECT_EQ(remedy(layout_.key_pair(), read), str("chmod -R go-rwx ", layout_.keys().string()));
  EXPECT_EQ(remedy(layout_.metrics(), change), str("chmod -R go-w ", layout_.root().string()));
  EXPECT_EQ(remedy(layout_.metrics(), read), "");
}

// As Kubernetes leaves a volume with fsGroup, where the next mount changes the modes again.
TEST_F(WrongFiles, ModesOfTheWholeDirectory_AreMendedByOneLine) {
  fs::create_directories(layout_.keys().path());
  write(layout_.key_pair(), "secret");
  const auto remedy = [this](mode_t root, mode_t keys) {
    ::chmod(layout_.root().string().c_str(), root);
    ::chmod(layout_.keys().string().c_str(), keys);
    ::chmod(layout_.key_pair().string().c_str(), keys & 0666U);
    const Status checked = check_trusted(layout_);
    return checked ? "" : checked.error().hint;
  };
  const std::string change = str("chmod -R go-w ", layout_.root().string()),
                    read = str("chmod -R go-rwx ", layout_.keys().string());
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_EQ(remedy(0700, 0700), "");
  EXPECT_EQ(remedy(0770, 0700), change);
  EXPECT_EQ(remedy(0770, 0770), str(change, " && ", read));
  EXPECT_EQ(remedy(02770, 02770), str(change, " && ", read));
  ::setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
  EXPECT_EQ(remedy(0770, 0770), str(change, " && ", read));
  EXPECT_TRUE(remedy(02770, 02770).starts_with(str(change, " && ", read, " (and ")));
  EXPECT_NE(remedy(02770, 02770).find("fsGroupChangePolicy: OnRootMismatch"), std::string::npos);
  ::unsetenv("KUBERNETES_SERVICE_HOST");
}

// A user can make a large file of holes at no cost.
TEST_F(WrongFiles, RecordsLongerThanAnyRunsAre_AreNotReadAndSaidToBeSo) {
  EXPECT_TRUE(check_records(layout_));
  for (const FilePath& file : {layout_.attempts(), layout_.metrics()}) {
    write(file, R"({"event":"begin","step":1,"test_loss":1})"
                "\n");
    EXPECT_TRUE(check_records(layout_));
    fs::resize_file(file.path(), std::uint64_t{1} << 40);
    const Status checked = check_records(layout_);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ExitCode::kConfig);
    EXPECT_NE(checked.error().line().find(file.string() + " has 1.10 TB, more than the "), std::string::npos)
        << checked.error().line();
    EXPECT_FALSE(check_trusted(layout_));
    EXPECT_TRUE(read_lines(file).empty());
    // The last line end is too far from the end of the file.
    EXPECT_FALSE(LineFile(file).append({{"step", 2}}));
    EXPECT_EQ(next_attempt(layout_), 1U);
    EXPECT_EQ(recorded(layout_).step, 0U);
    EXPECT_EQ(best_evaluated(layout_, {1}, {}).has_value(), file.filename() == "attempts.jsonl");
    EXPECT_FALSE(last_evaluation(layout_));
    fs::remove(file.path());
  }
}

TEST_F(WrongFiles, MetricsThatAreNotRead_AreRewoundByNoLine) {
  const std::string early = R"({"loss":1,"step":1})", late = R"({"loss":1,"step":2})";
  write(layout_.metrics(), early + "\n");
  EXPECT_TRUE(recorded(layout_).read);
  fs::resize_file(layout_.metrics().path(), std::uint64_t{1} << 40);
  std::ofstream(layout_.metrics().path(), std::ios::app) << "\n" << late << "\n";
  EXPECT_FALSE(MetricsFile(layout_).rewind(1));
  EXPECT_GT(fs::file_size(layout_.metrics().path()), std::uint64_t{1} << 40);
  EXPECT_FALSE(recorded(layout_).read);
  fs::remove(layout_.metrics().path());
  EXPECT_TRUE(recorded(layout_).read) << "a missing file has no lines";
  fs::create_directory(layout_.metrics().path());
  EXPECT_FALSE(recorded(layout_).read);
}

TEST_F(WrongFiles, ALongHoleInTheMetrics_IsReadUntilItsReaderGivesUp) {
  write(layout_.metrics(), "{\"step\":1,\"loss\":1}\n");
  fs::resize_file(layout_.metrics().path(), std::uint64_t{64} << 30);
  int asked = 0;
  const Recorded all = recorded(layout_, [&asked] { return ++asked == 10; });
  EXPECT_TRUE(all.given_up);
  EXPECT_EQ(asked, 10);
  EXPECT_EQ(all.step, 1U);
  write(layout_.metrics(), "{\"step\":1,\"loss\":1}\n");
  EXPECT_FALSE(recorded(layout_, [] { return false; }).given_up);
}

}  // namespace
}  // namespace rekindle::run
