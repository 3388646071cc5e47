// The processes of the measurement: a real coordinator, and node processes around it.
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

// What the kernel counted for a process.
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

  // Both end this program with a line on stderr when a limit of two minutes is over, and whenever a process
  // ends that nobody killed.
  void start_coordinator(bool again = false);
  // Until every node process has reported this milestone; when the last trainer came to it. An empty
  // generation: the first for which all of them do so after `since_ns`.
  std::int64_t wait_for(const std::string& what, std::int64_t since_ns, std::string* generation = nullptr);
  // Until the coordinator has said a line with these words; when it was heard.
  std::int64_t wait_for_line(const std::string& words);
  // Until the coordinator knows so many trainers.
  void wait_for_trainers(std::size_t count);
  // Goes on hearing everybody meanwhile.
  void pass(double seconds);

  void start_nodes(int first, int nodes);
  // SIGKILL to the node process that was started last; the time.
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
  void turn();  // waits a little for anything to be said
  void hear_coordinator();

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
