// A worker's trainers: child processes, their sockets and exit statuses. No CAF.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/trainer_process.hpp"
#include "actors/worker.hpp"
#include "actors/worker_host.hpp"
#include "base/channel.hpp"
#include "base/lifeline.hpp"
#include "base/process.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

struct TrainerLaunch {
  run::Layout layout;
  protocol::Job job;
  int number = 0;  // WorkerOptions::number
  Keeper* keeper = nullptr;
  std::optional<Error> refusal = {};  // why no trainer can be started on this node
};

class TrainerGroup final : public Trainers {
 public:
  explicit TrainerGroup(TrainerLaunch launch);
  ~TrainerGroup() override { kill_all(); }

  // From any thread. serve() launches the trainer. An error: no trainer can be started on this node.
  Status start(const std::string& trainer) override;
  void send(const std::string& trainer, const std::string& message) override;
  void kill(const std::string& trainer) override;
  // Ends all trainers, and this process.
  [[noreturn]] void leave(int exit_code) override;

  struct Listener {
    std::function<void(const std::string& trainer, std::string message)> on_message;
    std::function<void(const std::string& trainer, const ExitStatus& status)> on_end;
  };
  // Starts the trainers, and reports their messages and exits, until `until_fd` is readable. Call this in the
  // main thread alone.
  void serve(int until_fd, const Listener& listener);

 private:
  // Waiting for the lifeline's cut means waiting for a mutex, so each watch has a thread of its own.
  struct Watch {
    explicit Watch(Lifeline its) : line(std::move(its)) {}
    Lifeline line;
    std::atomic<bool> cut = false;
    std::jthread waiting;  // started by the trainer's first message
  };
  struct Member {
    Child child;
    std::shared_ptr<Channel> channel;  // shared: a send may be running while the trainer ends
    std::unique_ptr<Watch> watch;
    bool open = true;
    bool reported = false;  // the trainer's end was reported to the listener
  };
  struct Watched {
    std::string trainer;
    std::shared_ptr<Channel> channel;
    int pidfd = -1;
    bool open = true, dying = false;
  };
  Status launch(const std::string& trainer);
  void launch_due(const Listener& listener);
  bool dying_in_place_of(const std::string& trainer) const;  // with mutex_ held
  void report_never_started(const Listener& listener);
  void kill_all();
  std::vector<Watched> watched();
  std::shared_ptr<Channel> channel_of(const std::string& trainer);
  void watch(const std::string& trainer);
  void report_death(const std::string& trainer, const Listener& listener);
  void reap(const std::string& trainer, const Listener& listener);

  TrainerLaunch launch_;
  TrainerCommand command_;
  std::optional<SpareTrainer> spare_;  // of a script; used by the thread of serve()
  Fd changed_;                         // eventfd: a trainer is to be started, or is dying
  std::mutex mutex_;
  std::map<std::string, Member> members_;  // guarded by mutex_
  // starts_: trainers to start. If a dying trainer has the place, the start waits until that trainer is gone,
  // because until then its ports and memory are in use. never_started_: trainers that were killed before
  // that. Guarded by mutex_.
  std::vector<std::string> starts_, never_started_;
};

}  // namespace rekindle::actors
