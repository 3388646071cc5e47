// What a person sees of a live run: the start table, `status`, and the records. Each value is compared with
// what the machine says about the processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

class Watching : public LiveRun {
 protected:
  nlohmann::json status() const {
    const Outcome outcome = run({"status", dir(), "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, false);
  }
};

TEST_F(Watching, Status_HasTheProcessesStepsAndMemoryOfALiveRun) {
  begin(2);
  wait_for_step(5);
  nlohmann::json now;
  ASSERT_TRUE(eventually([&] {  // one status each second, and a first sample of memory
    now = status();
    const auto& trainers = now["trainers"];
    return trainers.size() == 2 && std::ranges::all_of(trainers, [](const nlohmann::json& trainer) {
             return trainer["peak_pss_bytes"] > 0 && trainer["rank"] >= 0 && trainer["step"] > 0;
           });
  })) << now;
  EXPECT_EQ(now["state"], "running");
  EXPECT_EQ(now["phase"], "running");
  EXPECT_EQ(now["term"], 1);
  EXPECT_EQ(now["attempt"], 1);
  EXPECT_GT(now["step"], 0);
  EXPECT_GT(now["images_per_second"], 0);
  EXPECT_GT(now["loss"], 0);
  std::set<pid_t> pids;
  std::uint64_t peak = 0;
  for (const nlohmann::json& trainer : now["trainers"]) {
    pids.insert(trainer["pid"].get<pid_t>());
    peak += trainer["peak_pss_bytes"].get<std::uint64_t>();
    EXPECT_EQ(trainer["host"], host_name());
    EXPECT_EQ(trainer["device"], "cpu");
  }
  const std::vector<pid_t> there = parts_of(dir(), "trainer");
  EXPECT_EQ(pids, std::set<pid_t>(there.begin(), there.end()));
  EXPECT_EQ(now["peak_pss_bytes"], peak);
  constexpr std::uint64_t kLeast = std::uint64_t{20} << 20, kMost = std::uint64_t{4} << 30;
  EXPECT_GT(peak, kLeast) << "LibTorch alone takes more";
  EXPECT_LT(peak, kMost);
  const std::string shown = run({"status", dir()}).out;
  for (const pid_t pid : there) EXPECT_NE(shown.find(str("pid ", pid)), std::string::npos) << shown;
  EXPECT_NE(shown.find("state    running, attempt 1, term 1, generation t1.g1"), std::string::npos) << shown;
  stop_and_compare();
}

TEST_F(Watching, StartTable_NamesEachTrainerOnce) {
  begin(2);
  wait_for_step(1);
  std::set<pid_t> pids;
  std::istringstream lines(program_->printed());
  bool in_table = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string rank, host, device, pid, check, unit, micro_batches;
    words >> rank >> host >> device >> pid >> check >> unit >> micro_batches;
    if (rank == "rank") {
      in_table = true;
      EXPECT_EQ(line.find("self-check") != std::string::npos, true) << line;
      continue;
    }
    if (!in_table || (rank != "0" && rank != "1")) continue;
    EXPECT_EQ(host, host_name()) << line;
    EXPECT_EQ(device, "cpu") << line;
    EXPECT_GT(std::atof(check.c_str()), 0) << line;
    EXPECT_EQ(unit, "ms") << line;
    EXPECT_NE(micro_batches.find('-'), std::string::npos) << line;
    pids.insert(std::atoi(pid.c_str()));
  }
  const std::vector<pid_t> there = parts_of(dir(), "trainer");
  EXPECT_EQ(pids, std::set<pid_t>(there.begin(), there.end())) << program_->printed();
  stop_and_compare();
}

TEST_F(Watching, Metrics_EveryStepHasItsTimesAndTheyAddUp) {
  ASSERT_EQ(run(mnist_run(dir(), 2, 30)).exit_code, 0);
  std::ifstream file(dir() / "metrics.jsonl");
  std::size_t steps = 0;
  for (std::string text; std::getline(file, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    ASSERT_TRUE(line.is_object()) << text;
    if (!line.contains("loss")) continue;
    ++steps;
    double parts = 0;
    for (const char* part : {"data_ms", "compute_ms", "exchange_ms", "update_ms", "checkpoint_ms"}) {
      EXPECT_GE(line[part], 0) << text;
      parts += line[part].get<double>();
    }
    EXPECT_GT(line["compute_ms"], 0) << text;
    EXPECT_LE(parts, line["step_ms"].get<double>() * 1.01 + 1) << "the parts are of this step: " << text;
    EXPECT_EQ(line["trainers"], 2) << text;
    EXPECT_EQ(line["attempt"], 1) << text;
    EXPECT_FALSE(line["at"].get<std::string>().empty()) << text;
  }
  EXPECT_EQ(steps, 30U);
}

}  // namespace
}  // namespace rekindle::process_test
