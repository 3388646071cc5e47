// A worker's trainers: child processes, their sockets, their ends. No CAF.
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

#include "actors/worker.hpp"
#include "actors/worker_host.hpp"
#include "base/channel.hpp"
#include "base/lifeline.hpp"
#include "base/process.hpp"
#include "protocol/job.hpp"

namespace rekindle::actors {

struct TrainerLaunch {
  std::string program;  // the trainer executable
  std::string run_dir;
  protocol::Job job;
  Keeper* keeper = nullptr;
  std::optional<Error> refusal = {};  // why none can be started on this node
};

class TrainerGroup final : public Trainers {
 public:
  explicit TrainerGroup(TrainerLaunch launch);
  ~TrainerGroup() override { kill_all(); }

  // From any thread.
  Status start(const std::string& trainer) override;
  void send(const std::string& trainer, const std::string& message) override;
  void kill(const std::string& trainer) override;
  // Ends them all, and this process.
  [[noreturn]] void leave(int exit_code) override;

  struct Listener {
    std::function<void(const std::string& trainer, std::string message)> said;
    std::function<void(const std::string& trainer, const ExitStatus& status)> ended;
  };
  // Tells what the trainers say and how they end until `until_fd` is readable.
  void serve(int until_fd, const Listener& listener);

 private:
  // A thread of its own waits for the lifeline's cut, for nothing else can be waited for beside a mutex.
  struct Watch {
    explicit Watch(Lifeline its) : line(std::move(its)) {}
    Lifeline line;
    std::atomic<bool> cut = false;
    std::jthread waiting;  // since the trainer's first word
  };
  struct Member {
    Child child;
    std::shared_ptr<Channel> channel;  // shared: an order may be on its way while the trainer ends
    std::unique_ptr<Watch> watch;
    bool open = true;
    bool told = false;  // the listener knows that it ended
  };
  struct Watched {
    std::string trainer;
    std::shared_ptr<Channel> channel;
    int pidfd = -1;
    bool open = true, dying = false;
  };
  Status launch(const std::string& trainer);
  bool dying_in_place_of(const std::string& trainer) const;  // with mutex_ held
  void tell_of_the_never_started(const Listener& listener);
  void kill_all();
  std::vector<Watched> watched();
  std::shared_ptr<Channel> channel_of(const std::string& trainer);
  void watch(const std::string& trainer);
  void tell_of_death(const std::string& trainer, const Listener& listener);
  void reap(const std::string& trainer, const Listener& listener);

  TrainerLaunch launch_;
  std::vector<std::string> environment_;  // a trainer's, "NAME=value"
  Fd changed_;                            // eventfd: somebody was started, or is dying
  std::mutex mutex_;
  std::map<std::string, Member> members_;  // guarded by mutex_
  // To be started when the one before has gone altogether, for until then ports and memory are taken; and
  // those that were killed before. Guarded by mutex_.
  std::vector<std::string> starts_, never_started_;
};

}  // namespace rekindle::actors
