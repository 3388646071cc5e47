#include "harness.hpp"
#include "../read_lines.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::process_test {
namespace {

std::string slurp(const fs::path& path) {
  auto text = read_text(path);
  return text ? *text : "";
}

fs::path fresh_path(const std::string& what) {
  static std::atomic<int> count = 0;
  static const std::string once = random_hex(8);  // a name that no other test program has
  return fs::temp_directory_path() / str("rekindle-", what, "-", once, "-", count++);
}

// A data set that exists as long as the test program.
struct Data {
  Data(const std::string& kind, int samples) : path(fresh_path("data")) {
    const Outcome made = run({"make-data", kind, path, "--samples", std::to_string(samples)});
    EXPECT_EQ(made.exit_code, 0) << made.err;
  }
  ~Data() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

}  // namespace

Scratch::Scratch() : path_(fresh_path("test")) { fs::create_directories(path_); }
Scratch::~Scratch() {
  std::error_code ignored;  // on network storage, removed names may still be listed
  fs::remove_all(path_, ignored);
}

Program::Program(const std::vector<std::string>& argv)
    : output_(fresh_path("out")), errors_(fresh_path("err")) {
  std::vector<std::string> copies = argv;
  std::vector<char*> args;
  args.reserve(copies.size() + 1);
  for (std::string& copy : copies) args.push_back(copy.data());
  args.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no child may live longer than the test program
    ::signal(SIGHUP, SIG_DFL);           // the tests may be started with nohup
    if (::getppid() != parent) ::_exit(127);
    ::dup2(::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    ::dup2(::open(errors_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::execv(args[0], args.data());
    ::_exit(127);
  }
}

Program::~Program() {
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
  }
  fs::remove(output_);
  fs::remove(errors_);
}

void Program::signal(int number) const { ::kill(pid_, number); }

bool Program::running() {
  if (!reaped_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) reaped_ = true;
  return !reaped_;
}

std::string Program::printed() const { return slurp(output_); }

Outcome Program::wait() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (running() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(reaped_) << "the program did not end";
  Outcome outcome{-1, slurp(output_), slurp(errors_)};
  if (reaped_) outcome.exit_code = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  EXPECT_EQ(outcome.out.find("the coordinator did not exit"), std::string::npos) << outcome.out;
  return outcome;
}

std::string rekindle() { return REKINDLE_PROGRAM; }

Outcome run(const std::vector<std::string>& arguments) {
  return Program(Arguments{rekindle()} + arguments).wait();
}

bool eventually(const std::function<bool()>& condition, std::chrono::seconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::uint64_t trainers_now(const fs::path& run_dir) {
  const auto lines = run::read_lines(run::Layout(run_dir).metrics());
  return lines.empty() ? 0 : lines.back().value("trainers", std::uint64_t{0});
}

std::uint64_t reached_step(const fs::path& run_dir) {
  std::uint64_t step = 0;
  for (const auto& line : run::read_lines(run::Layout(run_dir).metrics())) {
    step = std::max(step, line.value("step", std::uint64_t{0}));
  }
  return step;
}

std::vector<std::uint64_t> missing_steps(const fs::path& run_dir, std::uint64_t steps) {
  std::vector<int> lines(steps + 1, 0);
  for (const auto& line : run::read_lines(run::Layout(run_dir).metrics())) {
    const auto step = line.value("step", std::uint64_t{0});
    if (line.contains("loss") && step <= steps) ++lines[step];
  }
  std::vector<std::uint64_t> wrong;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    if (lines[step] != 1) wrong.push_back(step);
  }
  return wrong;
}

std::size_t times_in(const std::string& text, const std::string& words) {
  std::size_t times = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++times;
  return times;
}

std::string digest_of(const fs::path& run_dir) {
  const Outcome outcome = run({"digest", run_dir});
  return outcome.exit_code == 0 ? outcome.out : "error: " + outcome.err;
}

std::string command_line(pid_t pid) {
  std::ifstream file(str("/proc/", pid, "/cmdline"), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    if (command_line(pid).find(word) != std::string::npos) found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> parts_of(const fs::path& run_dir, const std::string& part) {
  const std::string program = part == "supervisor" ? "rekindle"
                              : part == "trainer"  ? "rekindle-trainer"
                                                   : "rekindle-control";
  std::vector<pid_t> found;
  for (const pid_t pid : processes_with(run_dir)) {
    std::error_code code;
    if (fs::read_symlink(str("/proc/", pid, "/exe"), code).filename() != program) continue;
    const auto has_word = [line = command_line(pid)](const std::string& word) {
      return line.find(std::string(1, '\0') + word + '\0') != std::string::npos;
    };
    if (program == "rekindle-control" ? has_word(part) : !has_word("relay-output")) found.push_back(pid);
  }
  return found;
}

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

fs::path mnist_data() {
  static const Data data("mnist", 1000);
  return data.path;
}

fs::path cifar_data() {
  static const Data data("cifar10", 100);
  return data.path;
}

namespace {
// What CTest asks for; else the run chooses.
Arguments asked_exchange() {
  const char* exchange = std::getenv("REKINDLE_TEST_EXCHANGE");
  return exchange == nullptr ? Arguments{} : Arguments{"--exchange", exchange};
}
}  // namespace

Arguments mnist_run(const fs::path& run_dir, int workers, int steps) {
  return Arguments{"local",   "--run-dir",       run_dir,  "--workers",  std::to_string(workers),
                   "--model", "mnist-cnn",       "--data", mnist_data(), "--batch-size",
                   "16",      "--micro-batches", "8",      "--steps",    std::to_string(steps)} +
         asked_exchange();
}

Arguments mnist_job(const std::string& command, const fs::path& run_dir, int steps) {
  Arguments arguments = mnist_run(run_dir, 1, steps);
  arguments[0] = command;
  arguments.erase(arguments.begin() + 3, arguments.begin() + 5);  // --workers
  return arguments;
}

void kill_a_trainer_and_stop(const Arguments& arguments, const fs::path& run_dir, std::uint64_t step) {
  Program program(Arguments{rekindle()} + arguments);
  ASSERT_TRUE(eventually([&] { return reached_step(run_dir) >= step || !program.running(); }));
  const std::vector<pid_t> trainers = parts_of(run_dir, "trainer");
  ASSERT_FALSE(trainers.empty()) << "the run was over before the kill";
  ASSERT_EQ(::kill(trainers.back(), SIGKILL), 0) << "the run was over before the kill";
  const auto log = [&] { return read_text(run::Layout(run_dir).log("coordinator")).value_or(""); };
  const std::string killed = "it was killed by signal 9";
  ASSERT_TRUE(eventually([&] { return times_in(log(), killed) > 0 || !program.running(); }));
  ASSERT_GT(times_in(log(), killed), 0U) << log();
  const std::uint64_t reached = reached_step(run_dir);
  ASSERT_TRUE(eventually([&] { return reached_step(run_dir) >= reached + 2 || !program.running(); }));
  program.signal(SIGUSR1);
  const Outcome stopped = program.wait();
  ASSERT_EQ(stopped.exit_code, 75) << stopped.out << stopped.err;
}

bool can_be_ended(pid_t pid) {
  std::error_code code;
  return std::distance(fs::directory_iterator(str("/proc/", pid, "/task"), code), fs::directory_iterator()) >
         1;
}

Arguments vgg_run(const fs::path& run_dir, int workers, int steps) {
  return Arguments{"local",
                   "--run-dir",
                   run_dir,
                   "--workers",
                   std::to_string(workers),
                   "--model",
                   "vgg11",
                   "--data",
                   cifar_data(),
                   "--image-size",
                   "64",
                   "--batch-size",
                   "4",
                   "--micro-batches",
                   "4",
                   "--steps",
                   std::to_string(steps)} +
         asked_exchange();
}

}  // namespace rekindle::process_test
