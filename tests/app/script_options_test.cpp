// What a script gives to rekindle.run(), as options.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "app/options.hpp"
#include "parse_words.hpp"

namespace rekindle::app {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

// The error about a script that has these options in its call.
Error refused(const Entries& entries) {
  const AskScript ask = [&entries](const Script&) -> Result<ScriptDescription> {
    ScriptDescription description;
    description.options = entries;
    return description;
  };
  Script script;
  script.file = "/scripts/train.py";
  const auto options = parse_words({}, AskNames(), script, ask);
  EXPECT_FALSE(options);
  return options ? Error() : options.error();
}

TEST(ScriptOptions, ArgumentThatRunHasNot_TheNearestOneAsItIsWrittenInPython) {
  const auto line = [](const std::string& name) {
    const Error error = refused({{name, "1"}});
    EXPECT_EQ(error.code, ExitCode::kUsage) << name;
    return error.line();
  };
  EXPECT_EQ(line("batchsize"), "run() has no argument batchsize: did you mean batch_size?");
  EXPECT_EQ(line("leraning-rate"), "run() has no argument leraning_rate: did you mean lr?");
  EXPECT_EQ(line("train-dta"), "run() has no argument train_dta: did you mean train_data?");
  EXPECT_EQ(line("optimiser"), "run() has no argument optimiser: did you mean optimizer?");
  EXPECT_EQ(line("zzzzzzzzzzzz"),
            "run() has no argument zzzzzzzzzzzz: help(rekindle.run) describes what it has");
}

}  // namespace
}  // namespace rekindle::app
