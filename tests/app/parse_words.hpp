// A command line with the options that every run needs, parsed like main() does.
#pragma once

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "app/options.hpp"
#include "app/spellings.hpp"

namespace rekindle::app {

using Words = std::vector<std::string>;

// `ask`: further arguments of JobOptions.
template <class... Ask>
Result<LocalOptions> parse_words(const Words& more, Ask... ask) {
  Words words = {"--run-dir", "/runs/first", "--data", "/data", "--steps", "1"};
  words.insert(words.end(), more.begin(), more.end());
  use_usual_names(words);
  CLI::App command("", "local");
  JobOptions options(command, std::move(ask)...);
  std::ranges::reverse(words);  // CLI11 takes the words in reverse order
  command.parse(words);
  return options.resolve();
}

inline protocol::Job job_in(const Result<LocalOptions>& options) {
  EXPECT_TRUE(options) << options.error().line();
  return options ? options->job : protocol::Job{};
}

}  // namespace rekindle::app
