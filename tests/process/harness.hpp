// Helpers for tests that run the real program.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace rekindle::process_test {

namespace fs = std::filesystem;

// A separate directory for each test, removed at the end.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Outcome {
  int exit_code = -1;  // 128 + n: ended by signal n
  std::string out, err;
};

// A program that runs until wait(). If the test ends first, the program is killed with its children.
class Program {
 public:
  explicit Program(const std::vector<std::string>& argv);
  ~Program();
  Program(const Program&) = delete;
  void signal(int number) const;
  pid_t pid() const { return pid_; }
  bool running();
  std::string printed() const;  // output on stdout so far
  Outcome wait();               // fails the test after 10 minutes

 private:
  fs::path output_, errors_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool reaped_ = false;
};

std::string rekindle();                                  // the program under test
Outcome run(const std::vector<std::string>& arguments);  // rekindle ARGUMENTS

// Waits until `condition` is true; returns false if `limit` passes first.
bool eventually(const std::function<bool()>& condition, std::chrono::seconds limit = std::chrono::minutes(2));

// The newest step in metrics.jsonl; 0 if there is none.
std::uint64_t reached_step(const fs::path& run_dir);

// The number of trainers in the newest step of metrics.jsonl; 0 if there is none.
std::uint64_t trainers_now(const fs::path& run_dir);

// Steps up to `steps` without a line in metrics.jsonl, or with more than one.
std::vector<std::uint64_t> missing_steps(const fs::path& run_dir, std::uint64_t steps);

// How often `text` contains `words`.
std::size_t times_in(const std::string& text, const std::string& words);

// `rekindle digest RUN_DIR`, or "error: ..." so that comparisons fail with a reason.
std::string digest_of(const fs::path& run_dir);

// The digest of mnist_run() with one worker and so many steps, which nothing disturbs. Made once for each
// build of the programs: the tests after the first one find it in a file.
std::string quiet_digest(int steps);
// The next number of steps above `reached` for which other tests want the digest, too.
int common_steps_after(std::uint64_t reached);

// Pids of all processes whose command line contains `word`.
std::vector<pid_t> processes_with(const std::string& word);

// The arguments of a process, each followed by a NUL; empty if the process is gone.
std::string command_line(pid_t pid);

// Pids of a run's processes of one kind: "supervisor", "coordinator", "worker" or "trainer".
std::vector<pid_t> parts_of(const fs::path& run_dir, const std::string& part);

using Arguments = std::vector<std::string>;
Arguments operator+(Arguments a, const Arguments& b);

// Small data sets, created once for each test program.
fs::path mnist_data();
fs::path cifar_data();

// Arguments of `rekindle local` with these data sets.
Arguments mnist_run(const fs::path& run_dir, int workers, int steps);
Arguments vgg_run(const fs::path& run_dir, int workers, int steps);
// The same for a Slurm job ("slurm" or "submit"), which starts its workers on its nodes.
Arguments mnist_job(const std::string& command, const fs::path& run_dir, int steps = 1000000);

// Runs `rekindle ARGUMENTS`, kills a trainer after step `step`, and stops the run a few steps later. Fails
// the test if the run was over before one of the two faults: give the run enough steps.
void kill_a_trainer_and_stop(const Arguments& arguments, const fs::path& run_dir, std::uint64_t step);

// Whether the thread exists that ends a program on a signal before its run begins.
bool can_be_ended(pid_t pid);

}  // namespace rekindle::process_test
