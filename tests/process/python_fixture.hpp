// Runs of Python scripts, with real processes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "../needs.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "harness.hpp"
#include "python.hpp"

namespace rekindle::process_test {

class Python : public testing::Test {
 protected:
  void SetUp() override {
    python_ = python_with_torch();
    if (python_.empty()) REKINDLE_SKIP(Needs::kPython, kNoTorch);
    ::setenv("REKINDLE_PYTHON", python_.c_str(), 1);
    ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  }
  static std::string everything() { return everything_script(REKINDLE_SOURCE); }
  // `python SCRIPT ARGUMENTS`
  Arguments python_with(const Arguments& arguments) const {
    return Arguments{"/usr/bin/env",
                     str("PYTHONPATH=", (fs::path(rekindle()).parent_path() / "python").string()), python_} +
           arguments;
  }
  Outcome python(const Arguments& arguments) const {
    Program program(python_with(arguments));
    return program.wait();
  }
  std::string script(const std::string& name, const std::string& text) const {
    std::ofstream(scratch_ / name) << text;
    return scratch_ / name;
  }
  static Arguments local(const fs::path& dir, int workers, const std::string& exchange, int loaders,
                         const std::string& script, const Arguments& arguments = {}) {
    return Arguments{"local",  "--run-dir",        dir,          "--workers", str(workers), "--exchange",
                     exchange, "--loader-threads", str(loaders), script} +
           arguments;
  }
  std::string digest(const std::string& name, int workers, const std::string& exchange, int loaders,
                     const Arguments& arguments = {}) const {
    const Outcome outcome = run(local(scratch_ / name, workers, exchange, loaders, everything(), arguments));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    // Neither in trainers nor in the process that describes the script does run() return.
    EXPECT_EQ(times_in(outcome.out + outcome.err, "after run()"), 0U) << outcome.out << outcome.err;
    return digest_of(scratch_ / name);
  }
  // Those that take part: a spare interpreter and the processes that load samples are not among them.
  static std::vector<pid_t> trainers_of(const fs::path& dir) {
    const Outcome status = run({"status", "--json", dir});
    std::vector<pid_t> pids;
    if (status.exit_code != 0) return pids;
    for (const auto& trainer : nlohmann::json::parse(status.out).value("trainers", nlohmann::json::array())) {
      if (trainer.value("rank", -1) >= 0) pids.push_back(trainer.at("pid").get<pid_t>());
    }
    return pids;
  }
  // Interpreters that wait until they become a trainer of the run.
  static std::vector<pid_t> spares_of(const fs::path& dir) {
    std::vector<pid_t> all = processes_with("--spare");
    const std::vector<pid_t> here = processes_with(dir);
    std::erase_if(all, [&here](pid_t pid) { return std::ranges::find(here, pid) == here.end(); });
    return all;
  }
  // The newest line of metrics.jsonl.
  static nlohmann::json last_metrics(const fs::path& dir) {
    const std::string metrics = read_text(dir / "metrics.jsonl").value();
    return nlohmann::json::parse(metrics.substr(metrics.rfind('\n', metrics.size() - 2) + 1));
  }
  // Against an undisturbed run of one trainer.
  void expect_same_after_a_stop_and_a_kill(int workers, int later_workers, const Arguments& arguments) const {
    const std::string expected = digest("calm", 1, "shm", 0, arguments);
    ASSERT_EQ(expected.size(), 33U) << expected;
    const fs::path dir = scratch_ / "faults";
    Program program(Arguments{rekindle()} + local(dir, workers, "shm", 1, everything(), arguments));
    ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 2 || !program.running(); }));
    std::vector<pid_t> trainers;  // status.json is written once a second
    ASSERT_TRUE(eventually([&] { return !(trainers = trainers_of(dir)).empty() || !program.running(); }));
    ASSERT_FALSE(trainers.empty());
    ::kill(trainers.back(), SIGKILL);
    ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 6 || !program.running(); }));
    program.signal(SIGUSR1);
    const Outcome stopped = program.wait();
    EXPECT_TRUE(stopped.exit_code == 75 || stopped.exit_code == 0) << stopped.err;
    EXPECT_EQ(run(local(dir, later_workers, "tcp", 0, everything(), arguments)).exit_code, 0);
    EXPECT_EQ(digest_of(dir), expected);
  }
  // 20 kills, of trainers and of the processes that load their samples.
  void expect_same_after_random_kills(const Arguments& arguments) const {
    const fs::path dir = scratch_ / "run";
    const auto seed = std::random_device()();
    std::mt19937 random(seed);
    const auto one_of = [&random](const std::vector<pid_t>& all) { return all[random() % all.size()]; };
    // It saves now and then: if all trainers are killed, only a few steps are made again.
    Program program(Arguments{rekindle()} +
                    local(dir, 3, "shm", 2, everything(),
                          arguments + Arguments{"steps=1000000", "checkpoint_interval='2s'"}));
    for (int kills = 0; kills < 20;) {
      const auto before = reached_step(dir);
      ASSERT_TRUE(eventually([&] { return reached_step(dir) > before + 2 || !program.running(); }));
      ASSERT_TRUE(program.running()) << "seed " << seed << "\n" << program.wait().out;
      const auto trainers = trainers_of(dir);  // of the last second: it may be dead
      if (trainers.empty()) continue;
      const pid_t trainer = one_of(trainers);
      const auto loaders = children_of(trainer);
      const pid_t victim = !loaders.empty() && random() % 2 == 0 ? one_of(loaders) : trainer;
      kills += is_running(victim) && ::kill(victim, SIGKILL) == 0 ? 1 : 0;
    }
    program.signal(SIGUSR1);
    const Outcome stopped = program.wait();
    EXPECT_EQ(stopped.exit_code, 75) << "seed " << seed << "\n" << stopped.out << stopped.err;
    const Arguments steps = arguments + Arguments{str("steps=", reached_step(dir) + 5)};
    EXPECT_EQ(run(local(dir, 2, "tcp", 0, everything(), steps)).exit_code, 0) << "seed " << seed;
    EXPECT_EQ(digest_of(dir), digest("calm", 1, "shm", 0, steps)) << "seed " << seed;
  }
  Scratch scratch_;
  std::string python_;
};

}  // namespace rekindle::process_test
