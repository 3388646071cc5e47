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
#include "base/programs.hpp"
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
// While the run is healthy: every node reads the shared storage in each look.
constexpr int kTurnsPerLook = 4;
constexpr seconds kAskAgain{5};  // between two queries of Slurm
// Slurm usually notices the end of a batch script within this time. After that, a step on the batch host
// looks for the script, after twice the time whenever it has found it.
constexpr milliseconds kLookForScript{30000}, kLookSeldom{600000};
constexpr milliseconds kStagger{100};  // between the nodes' first queries
// After this many consecutive answers of the coordinator, the run is alive, and only this worker has lost its
// supervisor.
constexpr int kAnswers = 4;
constexpr std::chrono::minutes kPatience{10};  // of a worker without a supervisor, if the job seems healthy

}  // namespace

struct BatchHostWatch::Parts {
  Parts(run::Layout of_run, SlurmJob of, std::string with)
      : layout(std::move(of_run)), job(std::move(of)), text(std::move(with)), watch(layout) {}

  const run::Layout layout;
  const SlurmJob job;
  const std::string text;
  run::Watch watch;
  Fd leave{::eventfd(0, EFD_CLOEXEC)};
  std::atomic<bool> left = false;  // whether the supervisor is gone
  std::mutex successor;            // held while a successor process runs

  void request_leave(const std::string& why) const {
    log_info(str("this worker leaves: ", why));
    const std::uint64_t one = 1;
    if (::write(leave.get(), &one, sizeof one) != sizeof one) ::_exit(1);
  }

  // Whether the coordinator on the batch host answers. A successor on another node does not count.
  bool coordinator_answers() const {
    const auto& holder = watch.holder();
    if (!holder || holder->slurm_node != job.batch_host) return false;
    const auto place = run::read_place(layout);
    return place && place->term == holder->term && reachable(place->host, place->port);
  }

  // Checks the run once. Returns whether to ask Slurm. Makes the worker leave if the run has ended, or if
  // only its own supervisor is gone.
  bool is_suspicious() {
    const run::Sign sign = watch.look(boot_time());
    // A coordinator that cannot write, because the disk is full, is silent and alive.
    if (!left) return sign == run::Sign::kOrphaned || (sign == run::Sign::kSilent && !coordinator_answers());
    if (left_at == milliseconds(0)) left_at = boot_time();
    if (sign == run::Sign::kEnded) return request_leave("the run has ended"), false;
    answers = coordinator_answers() ? answers + 1 : 0;
    if (answers >= kAnswers) return request_leave("its supervisor is gone"), false;
    if (boot_time() - left_at > kPatience) return request_leave("the run has no coordinator"), false;
    return answers == 0;
  }

  void ask_slurm() {
    const auto answer = slurm::ask_for_batch_host(job.environment.id(), job.environment.restarts);
    if (!answer) return log_warning(answer.error().line());
    if (answer->lost || answer->script_killed) {
      log_warning(str("the job has lost its batch ", answer->lost ? "host " : "script on ", job.batch_host,
                      ": this node starts a successor that saves the state"));
      return succeed();
    }
    if (answer->facts.restarts > job.environment.restarts) return;  // the job was requeued already
    if (left && slurm::is_over(answer->facts)) return request_leave("the job is over");
    if (boot_time() < look_at) return;
    look_pause = std::min(2 * look_pause, kLookSeldom);
    look_at = boot_time() + look_pause;
    log_info(str("the run has no coordinator, and Slurm shows job ", job.environment.id(), " as ",
                 answer->facts.state, ": checking whether ", job.batch_host, " still runs the batch script"));
    succeed();
  }

  // The started process asks Slurm again.
  void succeed() {
    const std::scoped_lock lock(successor);
    const auto child = start_program(
        "rekindle", {kSlurmSuccessor, layout.root().string(), str(layout.root().root_inode()), text}, {});
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
        look_pause = kLookForScript;
        look_at = ask_at + look_pause;
      }
      if (boot_time() < ask_at) continue;
      ask_slurm();
      ask_at = boot_time() + kAskAgain;
    }
  }

 private:
  milliseconds left_at{0}, look_at{0}, look_pause{kLookForScript};
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
