#include "app/batch_host_watch.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "app/slurm_job.hpp"
#include "app/slurm_successor.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/network.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "run/place.hpp"
#include "run/watch.hpp"
#include "slurm/batch_host.hpp"
#include "slurm/deadline.hpp"

namespace rekindle::app {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr milliseconds kTurn{500};
constexpr int kTurnsPerLook = 4;  // while all is well: every node reads the shared storage for this
constexpr seconds kAskAgain{5};   // Slurm
// Until Slurm has seen the end of a batch script, as a rule. Later a step is started on the batch host to
// look for the script, as often.
constexpr seconds kLookForScript{30};
constexpr milliseconds kStagger{100};  // between the nodes' first questions
// Answers of the coordinator, turn by turn: the run goes on, and only this worker has lost its supervisor.
constexpr int kAnswers = 4;
constexpr std::chrono::minutes kPatience{10};  // of a worker that was left, with a job that seems well

}  // namespace

struct BatchHostWatch::Parts {
  Parts(run::Layout of_run, SlurmJob of, std::string with)
      : layout(std::move(of_run)), job(std::move(of)), text(std::move(with)), watch(layout) {}

  const run::Layout layout;
  const SlurmJob job;
  const std::string text;
  run::Watch watch;
  Fd leave{::eventfd(0, EFD_CLOEXEC)};
  std::atomic<bool> left = false;  // by the supervisor
  std::mutex successor;            // held while one runs

  void tell_to_leave(const std::string& why) const {
    log_info(str("this worker leaves: ", why));
    const std::uint64_t one = 1;
    if (::write(leave.get(), &one, sizeof one) != sizeof one) ::_exit(1);
  }

  // A coordinator on the batch host, and not one that has succeeded it on another node.
  bool coordinator_answers() const {
    const auto& holder = watch.holder();
    if (!holder || holder->slurm_node != job.batch_host) return false;
    const auto place = run::read_place(layout);
    return place && place->term == holder->term && reachable(place->host, place->port);
  }

  // One turn's look at the run: whether Slurm has to be asked. Tells the worker to leave where it was left
  // for good.
  bool is_suspicious() {
    const run::Sign sign = watch.look(boot_time());
    if (!left) return sign == run::Sign::kOrphaned || sign == run::Sign::kSilent;
    if (left_at == milliseconds(0)) left_at = boot_time();
    if (sign == run::Sign::kEnded) return tell_to_leave("the run has ended"), false;
    answers = coordinator_answers() ? answers + 1 : 0;
    if (answers >= kAnswers) return tell_to_leave("its supervisor has left it"), false;
    if (boot_time() - left_at > kPatience) return tell_to_leave("nobody leads the run"), false;
    return answers == 0;
  }

  void ask_slurm() {
    const auto answer = slurm::ask_for_batch_host(job.environment.id(), job.environment.restarts);
    if (!answer) return log_warning(answer.error().line());
    if (answer->lost || answer->script_killed) {
      log_warning(str("the job has lost its batch ", answer->lost ? "host " : "script on ", job.batch_host,
                      ": the state is to be saved from here"));
      return succeed();
    }
    if (answer->facts.restarts > job.environment.restarts) return;  // somebody has requeued the job
    if (left && slurm::is_over(answer->facts)) return tell_to_leave("the job is over");
    if (boot_time() < look_at) return;
    look_at = boot_time() + kLookForScript;
    log_info(str("nobody leads the run, and Slurm shows job ", job.environment.id(), " as ",
                 answer->facts.state, ": does ", job.batch_host, " still have the batch script?"));
    succeed();
  }

  // The started process asks Slurm once more.
  void succeed() {
    const std::scoped_lock lock(successor);
    const auto child = spawn(
        {own_executable().parent_path() / "rekindle", kSlurmSuccessor, layout.root().string(), text}, {}, {});
    if (!child) return log_error(child.error().line());
    const ExitStatus status = wait_for(*child);
    if (status.by_signal || status.code != kNotNeeded)
      log_info(str("the successor of the batch script ended: ", status.by_signal ? "signal " : "exit code ",
                   status.code));
  }

  [[noreturn]] void run() {
    const auto here = std::find(job.nodes.begin(), job.nodes.end(), job.environment.node);
    const auto stagger = kStagger * std::min<std::ptrdiff_t>(here - job.nodes.begin(), 100);
    auto ask_at = milliseconds(0);
    for (int turn = 1;; ++turn) {
      std::this_thread::sleep_for(kTurn);
      if (!left && turn % kTurnsPerLook != 0) continue;
      if (!is_suspicious()) {
        ask_at = milliseconds(0);
        continue;
      }
      if (ask_at == milliseconds(0)) {
        ask_at = boot_time() + stagger;
        look_at = ask_at + kLookForScript;
      }
      if (boot_time() < ask_at) continue;
      ask_slurm();
      ask_at = boot_time() + kAskAgain;
    }
  }

 private:
  milliseconds left_at{0}, look_at{0};
  int answers = 0;
};

Result<BatchHostWatch*> BatchHostWatch::start(const run::Layout& layout, const std::string& text) {
  REKINDLE_TRY(SlurmJob job, parse_successor_text(text));
  auto* const parts = new Parts(layout, std::move(job), text);
  std::thread([parts] { parts->run(); }).detach();
  return new BatchHostWatch(parts);
}

int BatchHostWatch::supervisor_gone() {
  parts_->left = true;
  return parts_->leave.get();
}

void BatchHostWatch::before_leaving() { const std::scoped_lock lock(parts_->successor); }

}  // namespace rekindle::app
