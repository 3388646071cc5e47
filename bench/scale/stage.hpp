// The processes of the measurement: a real coordinator and the node processes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/channel.hpp"
#include "base/process.hpp"
#include "node_process.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::bench {

// The kernel's counters of a process.
struct Usage {
  double cpu_seconds = 0;
  double rss_mib = 0, peak_rss_mib = 0;
  int threads = 0;
};
Usage usage_of(int pid);

class Stage {
 public:
  Stage(run::Layout layout, int workers, int trainers);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // All waits end this program with a line on stderr after a limit of two minutes, or when a process ends
  // unexpectedly.
  void start_coordinator(bool again = false);
  // Waits until every node process has reported this milestone. Returns the time of the last trainer.
  // `generation` receives the first generation for which all node processes reported it after `since_ns`.
  std::int64_t wait_for(const std::string& what, std::int64_t since_ns, std::string* generation = nullptr);
  // Waits for a line of the coordinator with these words. Returns its arrival time.
  std::int64_t wait_for_line(const std::string& words);
  // Waits until the coordinator's status has this number of trainers.
  void wait_for_trainers(std::size_t count);
  // Waits this long and keeps reading all messages.
  void pass(double seconds);

  void start_nodes(int first, int nodes);
  // Sends SIGKILL to the newest node process. Returns the time.
  std::int64_t kill_last_nodes();
  std::int64_t kill_coordinator();
  Usage coordinator() const { return usage_of(coordinator_.child.pid); }

 private:
  struct Process {
    Child child;
    std::unique_ptr<Channel> channel;
    std::vector<Milestone> milestones;
  };
  Process start(const std::vector<std::string>& argv);
  void kill(Process& process);
  void turn();  // waits briefly for messages
  void read_coordinator();

  const run::Layout layout_;
  const int workers_, trainers_;
  const std::string control_, build_;
  Process coordinator_;
  std::vector<Process> nodes_;
  std::uint64_t term_ = 0, attempt_ = 0;
  std::vector<std::pair<std::int64_t, std::string>> lines_;
  int warnings_ = 0;
};

}  // namespace rekindle::bench
