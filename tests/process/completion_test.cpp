// The completion of the command line in real shells, and the manual page.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "../needs.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

class Completion : public ::testing::Test {
 protected:
  void prepare(const std::string& shell) {
    if (Program({"/usr/bin/env", shell, "-c", "exit"}).wait().exit_code != 0)
      REKINDLE_SKIP(Needs::kSetup, str("needs ", shell, " (tools/packages-test.txt)"));
    const Outcome script = run({"completion", shell});
    ASSERT_EQ(script.exit_code, 0) << script.err;
    std::ofstream(file_) << script.out;
    shell_ = shell;
  }
  // Each line that the shell prints.
  std::vector<std::string> lines_of(const std::string& commands) {
    const Outcome outcome = Program({"/usr/bin/env", shell_, "-c", commands}).wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    std::istringstream in(outcome.out);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  std::string source() const { return "source " + file_.string() + "; "; }

  Scratch scratch_;
  fs::path file_ = scratch_ / "completion";
  std::string shell_;
};

TEST(Manual, HasEveryCommandAndOption_AndManHasNothingToComplainOf) {
  const Outcome page = run({"manual"});
  ASSERT_EQ(page.exit_code, 0) << page.err;
  for (const char* words :
       {".TH REKINDLE 1 ", ".SS Watching", "\\fB\\-\\-micro\\-batches\\fR \\fIN\\fR", "REKINDLE SUBMIT",
        "The options of rekindle local, and:", "\\fB\\-f\\fR, \\fB\\-\\-follow\\fR", ".SH EXIT STATUS"})
    EXPECT_THAT(page.out, ::testing::HasSubstr(words));
  const Scratch scratch;
  const fs::path file = scratch / "rekindle.1";
  std::ofstream(file) << page.out;
  if (Program({"/usr/bin/env", "sh", "-c", "command -v mandoc"}).wait().exit_code != 0)
    REKINDLE_SKIP(Needs::kSetup, "needs mandoc (tools/packages-test.txt)");
  const Outcome lint = Program({"/usr/bin/env", "mandoc", "-T", "lint", "-W", "warning", file}).wait();
  std::istringstream complaints(lint.out);
  for (std::string line;
       std::getline(complaints, line);)  // a date would differ between two builds of one source
    EXPECT_THAT(line, ::testing::HasSubstr("WARNING: missing date")) << line;
}

TEST(Manual, CommandsAreThePageInTheDocuments) {
  const Outcome made = run({"manual", "markdown"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  std::ostringstream page;
  page << std::ifstream(REKINDLE_COMMANDS_PAGE).rdbuf();
  EXPECT_EQ(page.str(), made.out) << "rekindle manual markdown >docs/commands.md";
}

class BashCompletion : public Completion {
 protected:
  void SetUp() override { prepare("bash"); }
  std::vector<std::string> complete(const std::string& words, int number) {
    return lines_of(str(source(), "COMP_WORDS=(", words, "); COMP_CWORD=", number,
                        "; _rekindle; for word in \"${COMPREPLY[@]}\"; do echo \"$word\"; done"));
  }
};

TEST_F(BashCompletion, CommandsOptionsAndValues) {
  EXPECT_THAT(lines_of(str(source(), "complete -p rekindle")),
              ElementsAre(ContainsRegex("-F _rekindle rekindle")));
  EXPECT_THAT(complete("rekindle sel", 1), ElementsAre("selftest"));
  EXPECT_THAT(complete("rekindle ''", 1), IsSupersetOf({"local", "slurm", "status", "wait"}));
  EXPECT_THAT(complete("rekindle local --micro", 2), ElementsAre("--micro-batches"));
  EXPECT_THAT(complete("rekindle logs -", 2), IsSupersetOf({"--follow", "-f", "--level"}));
  EXPECT_THAT(complete("rekindle local --model resnet", 3),
              ElementsAre("resnet18", "resnet34", "resnet50", "resnet101"));
  EXPECT_THAT(complete("rekindle logs run --level w", 4), ElementsAre("warning"));
  EXPECT_THAT(complete("rekindle local --data da", 3), IsEmpty()) << "bash completes files";
  EXPECT_THAT(complete("rekindle slurm --", 2), Not(Contains("--workers"))) << "a hidden option";
}

class FishCompletion : public Completion {
 protected:
  void SetUp() override { prepare("fish"); }
  std::vector<std::string> complete(const std::string& line) {
    return lines_of(str(source(), "complete -C '", line, "'"));
  }
};

TEST_F(FishCompletion, CommandsOptionsAndValues) {
  EXPECT_THAT(complete("rekindle self"), ElementsAre(StartsWith("selftest\twhether this installation")));
  EXPECT_THAT(complete("rekindle local --micro"), ElementsAre(StartsWith("--micro-batches\t")));
  EXPECT_THAT(complete("rekindle local --model resnet3"), ElementsAre(StartsWith("resnet34")));
  EXPECT_THAT(complete("rekindle logs --level w"), ElementsAre(StartsWith("warning")));
}

class ZshCompletion : public Completion {
 protected:
  void SetUp() override { prepare("zsh"); }
  // What zsh offers for a line: its functions for completion only run in a line editor, so this one has
  // stand-ins for the three that the script ends with.
  std::vector<std::string> complete(const std::string& words, int current, const std::string& prefix) {
    return lines_of(
        str("compdef() { :; }; _describe() { print -l -- ${(P)2}; }; _files() { print files; }; "
            "compadd() { print -l -- ${(P)2}; }; ",
            source(), "words=(", words, "); CURRENT=", current, "; PREFIX='", prefix, "'; _rekindle"));
  }
};

TEST_F(ZshCompletion, CommandsOptionsAndValues) {
  EXPECT_THAT(complete("rekindle s", 2, "s"),
              Contains("stop:finish the step in flight, save the state and end the run"));
  EXPECT_THAT(complete("rekindle local --mi", 3, "--mi"),
              Contains(StartsWith("--micro-batches:equal parts of a batch")));
  EXPECT_THAT(complete("rekindle logs run --level w", 5, "w"),
              ElementsAre("debug", "info", "warning", "error"));
  EXPECT_THAT(complete("rekindle local --data d", 4, "d"), ElementsAre("files"));
}

TEST_F(ZshCompletion, WorksInALineEditor) {
  // zpty: a zsh at a terminal of its own, which gets a line and a tab.
  const std::vector<std::string> lines = lines_of(str(
      "zmodload zsh/zpty; zpty shell 'zsh -f -i'; ",
      "zpty -w shell 'PS1=; autoload -U compinit; compinit -u -D; source ", file_.string(), "; echo ready'; ",
      "zpty -r shell text '*ready*ready*'; zpty -w -n shell $'rekindle selfte\\t --dev\\t'; ",
      "zpty -r shell text '*selftest*--device*'; print -r -- ${text//[^a-z -]/}; zpty -d shell"));
  EXPECT_THAT(str(lines.empty() ? "" : lines.back()), ContainsRegex("rekindle selftest.*--device"))
      << "among codes of the terminal";
}

}  // namespace
}  // namespace rekindle::process_test
