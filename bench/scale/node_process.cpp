#include "node_process.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/channel.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "node.hpp"

namespace rekindle::bench {

using protocol::GenerationId;

namespace {

constexpr int kBeatMs = 500, kTurnMs = 10, kNice = 10;

// Counts the trainers of the process that have reached the same milestone.
class Milestones {
 public:
  Milestones(int trainers, Channel& main) : trainers_(trainers), main_(main) {}

  void reached(const char* what, const GenerationId& generation) {
    const std::scoped_lock lock(mutex_);
    if (++counts_[{what, generation}] != trainers_) return;
    const Milestone milestone{what, to_text(generation), now_ns()};
    static_cast<void>(main_.send(nlohmann::json(milestone).dump()));  // if main has ended, this process ends
  }

 private:
  const int trainers_;
  Channel& main_;
  std::mutex mutex_;
  std::map<std::pair<std::string, GenerationId>, int> counts_;
};

protocol::WorkerConfig config_of(const NodeOptions& options, int number) {
  protocol::WorkerConfig config;
  config.worker = str("w", number, "-", random_hex(4));
  config.host = str("node", number);
  config.build = options.build;
  config.slots = options.trainers;
  config.least_term = options.term;
  return config;
}

}  // namespace

void run_nodes(const NodeOptions& options, Fd main_socket) {
  // The coordinator must not compete with work that would run on other machines. (While CAF connects, it
  // polls without sleeping until the TLS handshake is over, so hundreds of connects at once take all cores.)
  ::setpriority(PRIO_PROCESS, 0, kNice);
  const std::string name = str("nodes-", options.first);
  start_logging(name, options.layout.log(name), LogLevel::kNone);
  Channel main(std::move(main_socket));
  Milestones milestones(options.nodes * options.trainers, main);
  std::vector<std::unique_ptr<Node>> nodes;
  nodes.reserve(static_cast<std::size_t>(options.nodes));
  for (int i = 0; i < options.nodes; ++i) {
    nodes.push_back(std::make_unique<Node>(
        options.layout, config_of(options, options.first + i), options.first + i,
        [&](const char* what, const GenerationId& generation) { milestones.reached(what, generation); }));
  }
  // Each node sends its beats at a different time, like independent machines.
  pollfd gone{main.fd(), POLLIN, 0};
  for (int turn = 0; ::poll(&gone, 1, kTurnMs) == 0; ++turn) {
    const int turns = kBeatMs / kTurnMs;
    for (int i = turn % turns; i < options.nodes; i += turns) nodes[static_cast<std::size_t>(i)]->beat();
  }
  ::_exit(0);
}

}  // namespace rekindle::bench
