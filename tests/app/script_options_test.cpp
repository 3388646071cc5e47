// What a script gives to rekindle.run(), as options.
#include <gtest/gtest.h>

#include <set>
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

TEST(ScriptOptions, OptionOfABuiltInModel_RefusedWhereItStands) {
  RawOptions raw;
  raw.run_dir = "/runs/first";
  raw.steps = 1;
  raw.label_smoothing = 0.1;
  ScriptDescription script;
  script.train_samples = 64;
  std::set<std::string> wrong;
  const auto on_the_command_line = resolve_options(raw, {}, wrong, &script);
  ASSERT_FALSE(on_the_command_line);
  EXPECT_EQ(
      on_the_command_line.error().line(),
      "--label-smoothing is an option of the built-in models, not of a script: the script itself decides "
      "that: give it as an argument behind the script");
  script.options = {{"label-smoothing", "0.1"}};
  const auto in_the_call = resolve_options(raw, {}, wrong, &script);
  ASSERT_FALSE(in_the_call);
  EXPECT_EQ(in_the_call.error().line(),
            "label_smoothing is an option of the built-in models, and no argument of run(): the model, the "
            "loss and the data sets decide that: leave it out");
}

}  // namespace
}  // namespace rekindle::app
