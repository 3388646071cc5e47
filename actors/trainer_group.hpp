// A worker's trainers: child processes, their sockets, their ends. No CAF.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/channel.hpp"
#include "base/process.hpp"
#include "protocol/job.hpp"

namespace rekindle::actors {

struct TrainerLaunch {
  std::string program;  // the trainer executable
  std::string run_dir;
  std::string worker;
  int count = 1;
  protocol::Job job;
};

class TrainerGroup {
 public:
  explicit TrainerGroup(TrainerLaunch launch) : launch_(std::move(launch)) {}
  ~TrainerGroup() { kill_all(); }

  Status start();
  // To one trainer, if it is there. From any thread.
  void send(const std::string& trainer, const std::string& message);

  // All trainers that were started have ended.
  bool over();

  struct Ended {
    std::string trainer;
    ExitStatus status;
  };
  // Serves until all trainers have ended or `supervisor_fd` is at its end; then ends whoever is left.
  void serve(int supervisor_fd, const std::function<void(std::string message)>& on_message,
             const std::function<void(const Ended&)>& on_end);

 private:
  struct Member {
    Child child;
    std::shared_ptr<Channel> channel;  // shared: an order may be on its way while the trainer ends
    bool open = true;
  };
  void drain(Member& member, const std::function<void(std::string)>& on_message);
  void kill_all();

  TrainerLaunch launch_;
  bool started_ = false;
  std::mutex mutex_;  // guards members_ and started_
  std::map<std::string, Member> members_;
};

}  // namespace rekindle::actors
