// One run with many faults from a seed. REKINDLE_SEED=N repeats the order of the faults, but not their times.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <list>
#include <random>
#include <sstream>

#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

class Chaos : public ::testing::TestWithParam<const char*> {
 protected:
  fs::path dir() const { return scratch_ / "run"; }
  int upto(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
  // False if there is none at the moment.
  bool hit(const std::string& part, int signal) {
    const auto pids = parts_of(dir(), part);
    return !pids.empty() &&
           ::kill(pids[static_cast<std::size_t>(upto(static_cast<int>(pids.size())))], signal) == 0;
  }
  bool fault() {
    switch (upto(8)) {
      case 0:
      case 1:
        return hit("trainer", SIGKILL);
      case 2:
        return hit("worker", SIGKILL);
      case 3:
        return hit("coordinator", SIGKILL);
      case 4:
        return hit("trainer", SIGSTOP);
      case 5: {
        const bool one = hit("trainer", SIGKILL);
        return hit("trainer", SIGKILL) && one;
      }
      case 6:
        if (joiners_.size() == 3) return false;
        joiners_.emplace_back(Arguments{rekindle(), "join", dir()});
        return true;
      default:
        if (joiners_.empty()) return hit("coordinator", SIGKILL);
        joiners_.pop_front();  // killed together with its child processes
        return true;
    }
  }

  std::string left_behind() const {
    std::string list;
    for (const pid_t pid : processes_with(dir())) {
      std::ostringstream text;
      for (const char* file : {"stat", "cmdline", "wchan"})
        text << std::ifstream(str("/proc/", pid, "/", file)).rdbuf() << "  ";
      list += text.str() + "\n";
    }
    return list;
  }

  void survive(int number) {
    const char* given = std::getenv("REKINDLE_SEED");
    const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
    std::cout << "REKINDLE_SEED=" << seed << std::endl;
    random_.seed(seed);
    Program program(Arguments{rekindle()} + mnist_run(dir(), 3, 1000000) +
                    Arguments{"--exchange", GetParam(), "--checkpoint-every", "20", "--lost-after", "2s"});
    ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= 5; }));
    for (int faults = 0; faults < number;) {
      ::usleep(static_cast<useconds_t>(100000 + upto(1500000)));
      ASSERT_TRUE(program.running()) << program.wait().out << program.wait().err;
      faults += fault() ? 1 : 0;
    }
    const std::uint64_t step = reached_step(dir());
    ASSERT_TRUE(eventually([&] { return reached_step(dir()) > step + 5 || !program.running(); }));
    program.signal(SIGUSR1);
    const Outcome outcome = program.wait();
    ASSERT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
    const auto said = outcome.out.find("stopped at step ");
    ASSERT_NE(said, std::string::npos) << outcome.out;
    const int steps = common_steps_after(std::stoul(outcome.out.substr(said + 16)));
    std::cout << steps << " steps, " << number << " faults" << std::endl;
    ASSERT_EQ(run(mnist_run(dir(), 2, steps)).exit_code, 0);
    EXPECT_EQ(digest_of(dir()), quiet_digest(steps)) << outcome.out;
    joiners_.clear();
    EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); })) << left_behind();
  }

  Scratch scratch_;
  std::mt19937 random_;
  std::list<Program> joiners_;
};
INSTANTIATE_TEST_SUITE_P(Exchanges, Chaos, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return info.param; });

TEST_P(Chaos, ADozenFaults_SameBits) { survive(12); }
TEST_P(Chaos, FiftyFaults_SameBits) { survive(50); }

}  // namespace
}  // namespace rekindle::process_test
