// How samples of a script are loaded (docs/python.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

class PythonLoaders : public Python {};

TEST_F(PythonLoaders, UnitTests) {
  const Outcome outcome = python({fs::path(REKINDLE_SOURCE) / "tests/python/loaders.py"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "Exception ignored"), 0U) << outcome.err;
}

TEST_F(PythonLoaders, ProcessThatReplacesAnother_HoldsNoMemoryOfTheExchange) {
  const fs::path dir = scratch_ / "run";
  Program program(Arguments{rekindle()} + local(dir, 2, "shm", 1, everything(), {"steps=1000000"}));
  std::vector<pid_t> trainers;
  ASSERT_TRUE(eventually([&] { return !(trainers = trainers_of(dir)).empty() || !program.running(); }));
  ASSERT_FALSE(trainers.empty());
  const auto count = [](pid_t pid, const std::string& word) {
    std::ifstream maps(str("/proc/", pid, "/maps"));
    std::size_t found = times_in({std::istreambuf_iterator<char>(maps), {}}, word);
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(str("/proc/", pid, "/fd"), gone))
      found += times_in(fs::read_symlink(entry.path(), gone).string(), word);
    return found;
  };
  ASSERT_TRUE(
      eventually([&] { return count(trainers[0], "memfd:rekindle-slot") > 0 || !program.running(); }));
  const std::vector<pid_t> first = children_of(trainers[0]);
  ASSERT_FALSE(first.empty());
  for (const pid_t pid : first) ::kill(pid, SIGKILL);
  const auto replaced = [&] {
    std::vector<pid_t> now = children_of(trainers[0]);
    std::erase_if(now, [&](pid_t pid) { return std::ranges::find(first, pid) != first.end(); });
    return now;
  };
  ASSERT_TRUE(eventually([&] { return !replaced().empty() || !program.running(); }));
  const auto before = reached_step(dir);
  EXPECT_TRUE(eventually([&] { return reached_step(dir) > before + 5 || !program.running(); }));
  for (const pid_t pid : replaced())
    EXPECT_EQ(count(pid, "memfd:rekindle-slot") + count(pid, "memfd:rekindle-control"), 0U);
  program.signal(SIGUSR1);
  EXPECT_EQ(program.wait().exit_code, 75);
}

// The trainer and each process that loads samples write whether they have the memory of a parameter. The
// values are compared, because another mapping may be at the address.
constexpr const char* kLooks = R"(
import os, sys, torch, rekindle
made, told = [], set()
class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.frozen = torch.nn.Parameter(torch.full((16,), 0.123), requires_grad=False)
        made.append(self)
expected = torch.full((16,), 0.123).numpy().tobytes()
def tell(who):
    if who in told or not made:  # a process that was forked before the model was made
        return
    told.add(who)
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        try:
            has = os.pread(memory.fileno(), len(expected), made[0].frozen.data_ptr()) == expected
        except OSError:  # nothing is mapped there
            has = False
    with open(sys.argv[1], "a") as file:
        file.write(f"{who} {has}\n")
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is not None:
            tell("loader")
        return torch.ones(4)
def loss(model, values):
    tell("trainer")
    return (model(values) ** 2).mean()
rekindle.run(model=Net, loss=loss, train_data=Samples(), batch_size=16, micro_batches=4, steps=1000000)
)";

TEST_F(PythonLoaders, ProcessThatReplacesAnother_DoesNotMapTheState) {
  const fs::path dir = scratch_ / "run", lines = scratch_ / "lines";
  Program program(Arguments{rekindle()} + local(dir, 1, "shm", 1, script("train.py", kLooks), {lines}));
  std::vector<pid_t> trainers;
  ASSERT_TRUE(eventually([&] { return !(trainers = trainers_of(dir)).empty() || !program.running(); }));
  ASSERT_FALSE(trainers.empty());
  const std::vector<pid_t> loaders = children_of(trainers[0]);
  ASSERT_FALSE(loaders.empty());
  for (const pid_t pid : loaders) ::kill(pid, SIGKILL);
  const auto told = [&] { return read_text(lines).value_or(""); };
  EXPECT_TRUE(eventually([&] {
    return (times_in(told(), "trainer ") > 0 && times_in(told(), "loader ") > 0) || !program.running();
  }));
  program.signal(SIGUSR1);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_EQ(times_in(told(), "trainer True\n"), 1U) << told();
  EXPECT_GE(times_in(told(), "loader False\n"), 1U) << told();
  EXPECT_EQ(times_in(told(), "loader True\n"), 0U) << told();
}

// A fork, or a DataLoader that starts again, would be a part of each recovery. The processes of the trainer
// that died end with it.
TEST_F(PythonLoaders, AnotherTrainerDies_TheSurvivorKeepsItsProcesses) {
  const fs::path dir = scratch_ / "run";
  Program program(Arguments{rekindle()} + local(dir, 2, "shm", 2, everything(), {"steps=1000000"}));
  std::vector<pid_t> trainers;
  ASSERT_TRUE(eventually([&] { return (trainers = trainers_of(dir)).size() == 2 || !program.running(); }));
  ASSERT_EQ(trainers.size(), 2U);
  const auto loaders = [&] {
    std::vector<pid_t> pids = children_of(trainers[0]);
    std::ranges::sort(pids);
    return pids;
  };
  const std::vector<pid_t> before = loaders();
  EXPECT_EQ(before.size(), 4U) << "two for training and two for test samples";
  const std::vector<pid_t> of_victim = children_of(trainers[1]);
  EXPECT_EQ(of_victim.size(), 4U);
  // torch looks every 5 s whether the parent is there. A stopped process cannot look: only the kernel ends
  // it.
  for (const pid_t pid : of_victim) ::kill(pid, SIGSTOP);
  ::kill(trainers[1], SIGKILL);
  const auto left = [&of_victim] {
    std::vector<pid_t> pids = of_victim;
    std::erase_if(pids, [](pid_t pid) { return !is_running(pid); });
    return pids;
  };
  EXPECT_TRUE(eventually([&] { return left().empty(); }));
  for (const pid_t pid : left()) ::kill(pid, SIGKILL);
  const auto is_replaced = [&] {
    const auto now = trainers_of(dir);
    return now.size() == 2 && std::ranges::find(now, trainers[1]) == now.end();
  };
  ASSERT_TRUE(eventually([&] { return is_replaced() || !program.running(); }));
  const auto reached = reached_step(dir);
  EXPECT_TRUE(eventually([&] { return reached_step(dir) > reached + 5 || !program.running(); }));
  EXPECT_EQ(loaders(), before);
  program.signal(SIGUSR1);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
}

// No sample can be read while the file is there.
constexpr const char* kAway = R"(
import errno, os, sys, torch, rekindle
class Samples(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        if os.path.exists(sys.argv[1]):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), "/data/samples")
        return torch.rand(4) + index
rekindle.run(model=lambda: torch.nn.Linear(4, 3), loss=lambda model, values: (model(values) ** 2).mean(),
             train_data=Samples(64), test_data=Samples(32), optimizer=rekindle.SGD(lr=1e-6), batch_size=16,
             micro_batches=4, steps=int(sys.argv[2]))
)";

TEST_F(PythonLoaders, StorageIsAwayForAWhile_SameDigestWithoutALoss) {
  const std::string text = script("train.py", kAway);
  const fs::path away = scratch_ / "away";
  for (const int loaders : {0, 1}) {
    const fs::path dir = scratch_ / str("run-", loaders);
    Program program(Arguments{rekindle()} + local(dir, 2, "shm", loaders, text, {away, "1000000"}));
    ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 2 || !program.running(); }));
    std::ofstream(away).put('x');
    const auto logs = [&] {
      std::string all;
      for (const auto& entry : fs::directory_iterator(dir / "logs"))
        all += read_text(entry.path()).value_or("");
      return all;
    };
    EXPECT_TRUE(eventually([&] {
      return times_in(logs(), "OSError: [Errno 116] Stale file handle: '/data/samples': this trainer tries") >
                 0 ||
             !program.running();
    })) << logs();
    fs::remove(away);
    const auto reached = reached_step(dir);
    EXPECT_TRUE(eventually([&] { return reached_step(dir) > reached + 5 || !program.running(); }));
    program.signal(SIGUSR1);
    const Outcome stopped = program.wait();
    EXPECT_EQ(stopped.exit_code, 75) << stopped.out << stopped.err;
    EXPECT_EQ(times_in(stopped.out, "was lost"), 0U) << stopped.out;
    const std::string steps = str(reached_step(dir) + 1);
    EXPECT_EQ(run(local(dir, 1, "shm", 0, text, {away, steps})).exit_code, 0);
    EXPECT_EQ(run(local(scratch_ / str("calm-", loaders), 1, "shm", 0, text, {away, steps})).exit_code, 0);
    EXPECT_EQ(digest_of(dir), digest_of(scratch_ / str("calm-", loaders)));
  }
}

}  // namespace
}  // namespace rekindle::process_test
