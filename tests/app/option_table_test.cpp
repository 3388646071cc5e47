// Compares the table of a run's options with the options made from it, and with the protocol's identity.
#include "app/option_table.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "app/options.hpp"
#include "base/text.hpp"
#include "optim/optimizer.hpp"
#include "parse_words.hpp"
#include "protocol/job.hpp"
#include "slurm/sbatch_options.hpp"

namespace rekindle::app {
namespace {

// The key of an option in a run's identity.
std::string key_of(const OptionRow& row) {
  std::string key = row.name;
  std::ranges::replace(key, '-', '_');
  return key;
}

TEST(OptionTable, IsTheRunsIdentity) {
  // Of each optimizer only its own options are compared, and of each schedule.
  std::set<std::string> compared, marked;
  for (const std::string& optimizer : optim::names_of_optimizers()) {
    protocol::Job job;
    job.init = "values";
    job.optimizer = optimizer;
    job.dampening = job.task.label_smoothing = 0.1;
    job.task.layers = job.task.heads = job.task.width = job.task.context = 1;
    job.ema = job.clip_norm = 0.5;
    job.no_decay = job.lr_scale = "*";
    job.task.model_options = "depth=3";
    job.nesterov = job.task.skip_corrupt = true;
    job.warmup_steps = 1;
    job.schedule = "multi-step";
    const nlohmann::json identity = protocol::identity_of(job);
    for (const auto& [key, value] : identity.items()) compared.insert(key);
  }
  compared.erase("data_hash");  // of the files that --data names
  for (const OptionRow& row : option_table()) {
    if (row.at_resume != AtResume::kFree && row.at_resume != AtResume::kNames) marked.insert(key_of(row));
  }
  EXPECT_EQ(marked, compared);
  for (const OptionRow& row : option_table()) {
    const bool is_rate = std::ranges::find(protocol::kRateKeys, key_of(row)) != std::end(protocol::kRateKeys);
    EXPECT_EQ(row.at_resume == AtResume::kChangeLr, is_rate) << row.name;
  }
}

TEST(OptionTable, IsThePageInTheDocuments) {
  const std::string path = REKINDLE_OPTIONS_PAGE;
  std::ostringstream page;
  page << std::ifstream(path).rdbuf();
  const std::string wanted = options_page(), made = ::testing::TempDir() + "/options.md";
  if (page.str() != wanted) std::ofstream(made) << wanted;
  EXPECT_EQ(page.str(), wanted) << "copy " << made << " to docs/options.md";
}

TEST(OptionTable, ShortHelpHasTheEssentialsAlone) {
  CLI::App command("", "local");
  JobOptions options(command);
  const std::string all = command.help();
  show_essentials(command);
  const std::string few = command.help();
  for (const OptionRow& row : option_table()) {
    const std::string name = str("--", row.name, " ");
    EXPECT_NE(all.find(name), std::string::npos) << row.name;
    EXPECT_EQ(few.find(name) != std::string::npos, row.group == OptionGroup::kEssential) << row.name;
  }
  EXPECT_NE(all.find("(default: sgd, adam and adamw 0.001, rmsprop 0.01, adadelta 1)"), std::string::npos);
  EXPECT_NE(all.find("(default: 10min)"), std::string::npos) << "of RawOptions";
}

TEST(OptionTable, OptionsOfEachOptimizer_ReachTheJobAndAreRefusedByTheOthers) {
  const nlohmann::json defaults = protocol::Job{};
  for (const optim::Row& row : optim::optimizers()) {
    for (const std::string& key : optim::option_names(row)) {
      SCOPED_TRACE(str(row.name, ", ", key));
      const bool is_flag = defaults.at(key).is_boolean();
      const nlohmann::json value = is_flag ? nlohmann::json(true) : nlohmann::json(0.5);
      for (const optim::Row& each : optim::optimizers()) {
        Words words = {"--optimizer", each.name, str("--", usual_name(key))};
        if (!is_flag) words.emplace_back("0.5");
        const auto options = parse_words(words);
        const std::vector<std::string> its = optim::option_names(each);
        if (std::ranges::find(its, key) == its.end()) {
          EXPECT_FALSE(options) << each.name;
        } else {
          const nlohmann::json job = job_in(options);
          EXPECT_EQ(job.at(key), value) << each.name;
        }
      }
    }
  }
}

TEST(OptionTable, FlagsTakeNoValue) {
  CLI::App command("", "local");
  JobOptions options(command);
  for (const OptionRow& row : option_table()) {
    const CLI::Option* option = command.get_option(str("--", row.name));
    EXPECT_EQ(option->get_items_expected_max() == 0, *row.value == '\0') << row.name;
  }
}

// `rekindle submit` takes sbatch's options out of the command line.
TEST(OptionTable, NoNameIsTakenForSbatchs) {
  for (const OptionRow& row : option_table()) {
    std::vector<std::string> words{str("--", row.name), "x"};
    EXPECT_TRUE(slurm::take_sbatch_options(words).empty()) << row.name;
  }
}

// The error for a wrong value names the source of the value: a file or the command line.
TEST(OptionTable, WrongValue_BlamedOnWhereItIsFrom) {
  const std::string file = ::testing::TempDir() + "/wrong.toml";
  std::ofstream(file) << "batch-size = 12\nkeep-best = true\n";
  const auto parsed = [&](std::vector<std::string> more) {
    CLI::App command("", "local");
    JobOptions options(command);
    std::vector<std::string> words = {"--run-dir", "/runs/a", "--data",   "/data",
                                      "--steps",   "1",       "--config", file};
    words.insert(words.end(), more.begin(), more.end());
    std::ranges::reverse(words);  // CLI11 takes the words in reverse order
    command.parse(words);
    return options.resolve();
  };
  const auto of_both = parsed({"--micro-batches", "8"});
  ASSERT_FALSE(of_both);
  EXPECT_EQ(of_both.error().code, ExitCode::kConfig);
  EXPECT_TRUE(of_both.error().what.starts_with(file)) << of_both.error().what;
  const auto of_line = parsed({"--exchange", "none"});
  ASSERT_FALSE(of_line);
  EXPECT_EQ(of_line.error().code, ExitCode::kUsage);
  EXPECT_EQ(of_line.error().what, "--exchange none is not known");
  EXPECT_TRUE(parsed({}));
}

}  // namespace
}  // namespace rekindle::app
