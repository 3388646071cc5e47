// Files of a run directory that are well-formed but wrong, or longer than any run makes them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/manifest_text.hpp"
#include "hostile_files_fixture.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

// ---- JSON and TOML that are well-formed and wrong ----

class WrongRun : public HostileFiles {
 protected:
  void SetUp() override { ASSERT_EQ(run(mnist_run(dir(), 1, 2)).exit_code, 0); }
  fs::path dir() const { return at("run"); }
  Outcome go_on() const { return run(mnist_run(dir(), 1, 4)); }
  const run::Layout layout_{scratch_ / "run"};
};

TEST_F(WrongRun, AStatusWithAWrongField_OneLineAnd78AndTheRunGoesOn) {
  for (const std::string& text : {std::string(R"({"state":5})"), std::string(R"({"voided_steps":"x"})"),
                                  R"({"state":)" + std::string(300000, '[')}) {
    write(layout_.status(), text);
    expect_refused(run({"status", dir()}), 78, "status.json: ");
  }
  write(layout_.status(), R"({"evaluation":"x"})");  // not a field of the file
  EXPECT_EQ(run({"status", dir()}).exit_code, 0);
  write(layout_.status(), R"({"state":5})");
  EXPECT_EQ(go_on().exit_code, 0);
  EXPECT_EQ(run({"status", dir()}).exit_code, 0);
}

TEST_F(WrongRun, AClaimThatIsNone_EveryCommandSaysSoInOneLineWith78) {
  const auto expect_all_refused = [&](const std::string& what) {
    for (const Arguments& command : {mnist_run(dir(), 1, 4), Arguments{"stop", dir()},
                                     Arguments{"status", dir()}, Arguments{"join", dir()}})
      expect_refused(run(command), 78, what);
  };
  write(layout_.status(), R"({"state":"running"})");
  write(layout_.terms() / "0002", R"({"host":5})");
  expect_all_refused("terms/0002: field 'host' is not a text: remove it if no run uses this directory\n");
  write(layout_.terms() / "0002", std::string(30000, '{'));
  expect_all_refused("terms/0002: is nested deeper than");
  write(layout_.terms() / "18446744073709551615", "{}");
  expect_all_refused("terms/18446744073709551615: there are no terms above 999999999999: remove it");
  EXPECT_TRUE(processes_with(dir()).empty());
}

TEST_F(WrongRun, ARunTomlThatIsNone_OneLineAnd78) {
  const std::string good = *read_text(layout_.config());
  const auto expect_both_refused = [&](const std::string& text, const std::string& what) {
    write(layout_.config(), text);
    expect_refused(go_on(), 78, what);
    expect_refused(run({"join", dir()}), 78, what);
  };
  const auto with = [&good](const std::string& key, const std::string& value) {
    std::string text;
    std::istringstream lines(good);
    for (std::string line; std::getline(lines, line);)
      text.append(line.starts_with(key + " = ") ? str(key, " = ", value) : line).append("\n");
    return text;
  };
  expect_both_refused(with("seed", "\"x\""), "run.toml: field 'seed' is not a whole number");
  expect_both_refused(with("earlier_rates", "[{since=0, lr_step=1, lr_gamma=0.5}]"),
                      "run.toml: entry 1 of 'earlier_rates': field 'lr' is missing");
  expect_both_refused("", "run.toml: field 'batch_size' is missing");
  expect_both_refused(good.substr(0, good.find("\nsteps = ") + 1), "run.toml: field 'steps' is missing");
  expect_both_refused(with("batch_size", "0"), "run.toml: field 'batch_size' cannot be 0");
  expect_both_refused(good + "deep = " + std::string(300000, '['), "run.toml");
  std::string parts = "a";
  for (int i = 0; i < 300000; ++i) parts += ".a";
  expect_both_refused(good + "\n# \" '\n[" + parts + "]\n", "run.toml: a key has more than 16 parts");
  fs::remove(layout_.config().path());
  ASSERT_EQ(::mkfifo(layout_.config().string().c_str(), 0600), 0);
  expect_refused(go_on(), 78, "run.toml is not a regular file");
  expect_refused(run({"join", dir()}), 78, "run.toml is not a regular file");
}

// The coordinator is the first process that reads the identity in a manifest.
TEST_F(WrongRun, ACheckpointWithARateWithoutLr_TheCoordinatorEndsWithOneLineAnd78) {
  const fs::path saved = checkpoint::directory_of(dir(), checkpoint::list_committed(dir()).at(0)).path();
  auto manifest = checkpoint::read_manifest(saved);
  ASSERT_TRUE(manifest) << manifest.error().line();
  auto identity = nlohmann::json::parse(manifest->identity);
  identity["earlier_rates"] = nlohmann::json::array({{{"since", 0}, {"lr_step", 1}, {"lr_gamma", 0.1}}});
  manifest->identity = identity.dump();
  write(saved / "manifest.json", checkpoint::manifest_text(*manifest).value());
  expect_refused(go_on(), 78, "entry 1 of 'earlier_rates': field 'lr' is missing");
  EXPECT_TRUE(processes_with(dir()).empty());
  expect_refused(run({"audit", dir(), "--from", "0", "--to", "2"}), 78, "field 'lr' is missing");
}

// JSON allows C1 control characters and marks for the text direction without an escape.
TEST_F(WrongRun, TextForATerminal_IsAsciiInJsonToo) {
  const std::string odd = "a\xc2\x9b\x7f\u061c\u202e\u200b\u2028\x1b[32m\nwhole: every byte verified z";
  const auto is_ascii = [](const std::string& text) {
    return std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= 0x20 && c < 0x7F); });
  };
  write(layout_.status(), nlohmann::json{{"state", odd}, {"generation", odd}}.dump());
  const Outcome status = run({"status", dir(), "--json"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_TRUE(is_ascii(status.out)) << status.out;
  EXPECT_EQ(nlohmann::json::parse(status.out)["generation"], odd);
  const std::string shown = run({"status", dir()}).out;
  EXPECT_TRUE(is_ascii(shown)) << shown;
  EXPECT_EQ(shown.find("\nwhole:"), std::string::npos) << shown;

  const fs::path saved = checkpoint::directory_of(dir(), checkpoint::list_committed(dir()).at(0)).path();
  auto manifest = checkpoint::read_manifest(saved);
  ASSERT_TRUE(manifest) << manifest.error().line();
  manifest->created = odd;
  write(saved / "manifest.json", checkpoint::manifest_text(*manifest).value());
  for (const Arguments& how : {Arguments{"--json"}, Arguments{}}) {
    const Outcome inspected = run(Arguments{"inspect", dir()} + how);
    EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
    EXPECT_TRUE(is_ascii(inspected.out)) << inspected.out;
    EXPECT_EQ(inspected.out.find("\nwhole: every byte verified z"), std::string::npos) << inspected.out;
    EXPECT_NE(inspected.out.find("202e"), std::string::npos) << inspected.out;
  }
}

// ---- signals ----

TEST_F(WrongRun, AnAuditThatIsEndedBeforeItsRun_LeavesNothing) {
  Program audit({rekindle(), "audit", dir(), "--from", "0", "--to", "2"});
  ASSERT_TRUE(eventually([&] { return can_be_ended(audit.pid()) || !audit.running(); }));
  audit.signal(SIGTERM);
  EXPECT_EQ(audit.wait().exit_code, 75);
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  for (const auto& entry : fs::directory_iterator(dir()))
    EXPECT_FALSE(entry.path().filename().string().starts_with("audit-")) << entry.path();
}

class LongRecords : public WrongRun {
 protected:
  // Whether a process has the metrics file open, and so is reading it.
  bool reads_metrics(pid_t pid) const {
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(str("/proc/", pid, "/fd"), code)) {
      if (fs::read_symlink(entry.path(), code) == layout_.metrics().path()) return true;
    }
    return false;
  }
  bool coordinator_reads() const {
    return std::ranges::any_of(parts_of(dir(), "coordinator"),
                               [this](pid_t pid) { return reads_metrics(pid); });
  }
};

TEST_F(LongRecords, LongerThanAnyRunsAre_EveryCommandThatReadsThemSaysSoInOneLine) {
  for (const FilePath& file : {layout_.attempts(), layout_.metrics()}) {
    const std::string before = *read_text(file);
    fs::resize_file(file.path(), std::uint64_t{1} << 40);
    for (const Arguments& command :
         {mnist_run(dir(), 1, 4), Arguments{"status", dir()}, Arguments{"join", dir()}})
      expect_refused(run(command), 78, file.filename().string() + " has 1.10 TB, more than the ");
    write(file, before);
  }
  EXPECT_EQ(go_on().exit_code, 0);
}

// Reading the holes takes half a minute; a real file would take minutes.
TEST_F(LongRecords, SignalWhileTheCoordinatorReadsThem_EndsTheRunBeforeItBegins) {
  const std::string before = *read_text(layout_.metrics());
  for (const auto& [signal, exit_code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 75)}) {
    fs::resize_file(layout_.metrics().path(), std::uint64_t{100} << 30);
    Program local(Arguments{rekindle()} + mnist_run(dir(), 1, 4));
    ASSERT_TRUE(eventually([&] { return coordinator_reads() || !local.running(); }));
    local.signal(signal);
    const Outcome outcome = local.wait();
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_NE(outcome.out.find("metrics.jsonl (107 GB), which may take minutes"), std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("before the first step: there was nothing to save"), std::string::npos)
        << outcome.out << outcome.err;
    EXPECT_TRUE(processes_with(dir()).empty());
  }
  write(layout_.metrics(), before);
  EXPECT_EQ(go_on().exit_code, 0);
}

}  // namespace
}  // namespace rekindle::process_test
