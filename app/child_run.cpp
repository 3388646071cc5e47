#include "app/child_run.hpp"

#include <fcntl.h>
#include <poll.h>

#include <chrono>
#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/command.hpp"
#include "base/files.hpp"
#include "base/lines.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr std::chrono::minutes kLimit{10};  // of each command
constexpr std::chrono::milliseconds kPause{100};
constexpr std::chrono::seconds kLastWrites{2};  // of a run that was killed
constexpr std::chrono::seconds kRemoval{10};

std::vector<std::string> with_program(const std::vector<std::string>& command) {
  std::vector<std::string> words = {own_executable()};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

// The processes of all runs.
std::mutex all_mutex;
std::vector<pid_t> all;

Child remembered(Child child) {
  const std::lock_guard lock(all_mutex);
  all.push_back(child.pid);
  return child;
}

ExitStatus end_of(const Child& child) {
  const ExitStatus status = wait_for(child);
  const std::lock_guard lock(all_mutex);
  std::erase(all, child.pid);
  return status;
}

Result<std::string> output_of(const std::vector<std::string>& command) {
  REKINDLE_TRY(const CommandOutput output, run_command(with_program(command), kLimit));
  if (output.ok()) return output.out;
  return fail(
      ExitCode::kGaveUp,
      str("rekindle ", command.front(), " ended with ", output.status.by_signal ? "signal " : "exit code ",
          output.status.code, ": ", last_line_of(output.err.empty() ? output.out : output.err)),
      "the logs of a run are in its folder logs/");
}

bool has_ended(const Child& child) {
  pollfd waits{child.pidfd.get(), POLLIN, 0};
  return ::poll(&waits, 1, 0) > 0;
}

}  // namespace

Status run_to_end(const std::vector<std::string>& command) {
  const auto output = output_of(command);
  if (!output) return forward_error(output.error());
  return {};
}

Result<std::string> digest_of(const fs::path& run_dir) {
  REKINDLE_TRY(const std::string text, output_of({"digest", run_dir}));
  return last_line_of(text);
}

Result<Child> RunOfRekindle::spawn_logged(const std::vector<std::string>& command, const char* name,
                                          const fs::path& own_trainer) const {
  std::vector<std::pair<std::string, std::string>> environment;
  if (!own_trainer.empty()) environment.emplace_back(kTrainerVariable, own_trainer);
  const FilePath log = FilePath(run_dir_.string() + "." + name);
  REKINDLE_TRY(const Fd out, open_file(log, O_WRONLY | O_CREAT | O_APPEND, 0600));
  REKINDLE_TRY(const Fd in, open_file(FilePath("/dev/null"), O_RDONLY));
  REKINDLE_TRY(Child child, spawn(with_program(command), environment, {},
                                  {.in = in.get(), .out = out.get(), .err = out.get()}));
  return remembered(std::move(child));
}

Result<std::unique_ptr<RunOfRekindle>> RunOfRekindle::start(const fs::path& run_dir,
                                                            const std::vector<std::string>& command,
                                                            const fs::path& own_trainer) {
  std::unique_ptr<RunOfRekindle> run(new RunOfRekindle(run_dir));
  REKINDLE_TRY(run->run_, run->spawn_logged(command, "log", own_trainer));
  return run;
}

RunOfRekindle::~RunOfRekindle() {
  for (const Child* child : {&run_, &helper_}) {
    if (child->pid < 0) continue;
    kill_child(*child, SIGKILL);  // its parts end with it
    end_of(*child);
  }
}

std::string RunOfRekindle::last_line() const {
  return last_line_of(read_text(FilePath(run_dir_.string() + ".log")).value_or(""));
}

Result<nlohmann::json> RunOfRekindle::status() const {
  const auto text = output_of({"status", "--json", run_dir_});
  if (!text) return nlohmann::json::object();
  auto status = nlohmann::json::parse(*text, nullptr, false);
  return status.is_object() ? status : nlohmann::json::object();
}

Result<std::uint64_t> RunOfRekindle::step() const {
  REKINDLE_TRY(const nlohmann::json status, this->status());
  return status.value("step", std::uint64_t{0});
}

Result<std::vector<pid_t>> RunOfRekindle::trainers() const {
  REKINDLE_TRY(const nlohmann::json status, this->status());
  std::vector<pid_t> pids;
  for (const auto& trainer : status.value("trainers", nlohmann::json::array())) {
    if (trainer.value("rank", -1) >= 0) pids.push_back(trainer.value("pid", pid_t{0}));
  }
  return pids;
}

Status RunOfRekindle::add_helper() {
  REKINDLE_TRY(helper_, spawn_logged({"join", run_dir_}, "join.log"));
  return {};
}

Status RunOfRekindle::wait(const std::function<Result<bool>()>& holds, std::chrono::minutes limit) {
  for (const auto began = steady_clock::now(); steady_clock::now() - began < limit;) {
    const bool ended = has_ended(run_);  // first: what holds at the end counts
    REKINDLE_TRY(const bool done, holds());
    if (done) return {};
    if (ended) {
      const ExitStatus status = end_of(std::exchange(run_, Child()));
      const ExitCode code = status.by_signal || status.code == 0 ? ExitCode::kGaveUp : ExitCode(status.code);
      return fail(code, str("the run has ended: ", last_line()), "see its logs/");
    }
    std::this_thread::sleep_for(kPause);
  }
  return fail(ExitCode::kGaveUp, str("nothing happened for ", limit.count(), " minutes: ", last_line()),
              "see its logs/");
}

Status RunOfRekindle::wait_for_step(std::uint64_t step) {
  return wait([this, step]() -> Result<bool> {
    REKINDLE_TRY(const std::uint64_t reached, this->step());
    return reached >= step;
  });
}

Status RunOfRekindle::stop() {
  kill_child(run_, SIGUSR1);
  const ExitStatus status = end_of(std::exchange(run_, Child()));
  if (!status.by_signal && (status.code == 0 || status.code == static_cast<int>(ExitCode::kSaved))) return {};
  return fail(ExitCode::kGaveUp, str("the run ended with ", status.code, ": ", last_line()), "see its logs/");
}

void kill_all_runs(const fs::path& folder) {
  {
    const std::lock_guard lock(all_mutex);
    for (const pid_t pid : all) ::kill(pid, SIGKILL);
  }
  if (folder.empty()) return;
  // The other processes of the run end by themselves. One that was just started makes its folders first.
  for (const auto began = steady_clock::now(); steady_clock::now() - began < kLastWrites;) {
    std::ignore = remove_tree(FilePath(folder));
    std::this_thread::sleep_for(kPause);
  }
  remove_after_run(folder);
}

bool remove_after_run(const fs::path& folder) {
  for (const auto began = steady_clock::now();;) {
    std::ignore = remove_tree(FilePath(folder));
    if (!path_exists(FilePath(folder))) return true;
    if (steady_clock::now() - began >= kRemoval) return false;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace rekindle::app
