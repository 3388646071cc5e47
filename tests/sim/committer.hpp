// The thread of a coordinator that commits checkpoints and removes old ones, like actors/commits.cpp. Its
// steps are production code (run::FencedCommit, checkpoint::sweep_list); between two steps time passes, in
// which another coordinator may take over.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "engine.hpp"
#include "protocol/events.hpp"

namespace rekindle::sim {

class CoordinatorProcess;
class CommitWork;

class Committer {
 public:
  explicit Committer(CoordinatorProcess& coordinator);
  ~Committer();
  void commit(const protocol::Commit& order);
  void sweep(const protocol::Sweep& order);

 private:
  void add(std::function<void()> work);
  void begin_next(Ms least, Ms most);
  void step();
  void answer(const protocol::Event& event);
  void sweep_now(const protocol::Sweep& order);

  CoordinatorProcess& coordinator_;
  std::deque<std::function<void()>> waiting_;  // the first one is being done
  std::unique_ptr<CommitWork> commit_;
};

}  // namespace rekindle::sim
