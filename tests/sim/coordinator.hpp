// The process around protocol::Coordinator, like actors/coordinator.cpp and actors/coordinator_host.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "disk.hpp"
#include "network.hpp"
#include "process.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::sim {

class Supervisor;

class CoordinatorProcess : public Process {
 public:
  CoordinatorProcess(World& world, std::string name, std::string host, Supervisor* supervisor,
                     bool restarted);
  void begin();

  bool listening() const { return alive() && machine_.has_value(); }
  std::uint64_t term() const { return term_; }
  protocol::Coordinator* machine() { return machine_ ? &*machine_ : nullptr; }
  bool stop_known() const { return stop_known_; }

  void enter(Connection& connection, std::uint64_t term, const protocol::Registration& registration);
  void reported(std::uint64_t term, const protocol::Event& event);
  void lost(Connection& connection);
  void feed(const protocol::Event& event);

 protected:
  void ended(bool by_signal, int code) override;

 private:
  void claim(Ms silent);
  void come_up();
  template <class TryAgain>
  bool storage_is_away(TryAgain again);
  protocol::CoordinatorConfig survey() const;
  void tick();
  void look_for_newer_term();
  void commit(const protocol::Commit& effect);
  bool all_there(const CheckpointId& id, const std::vector<std::string>& shards) const;
  void sweep(const std::vector<std::string>& pinned, const protocol::Sweep* after_restore = nullptr);
  std::optional<std::uint64_t> newer_term() const;

  void apply(const protocol::SendTrainer& effect);
  void apply(const protocol::KillTrainer& order);
  void apply(const protocol::Dismiss& order);
  void apply(const protocol::RegisterAgain& order);
  template <class Order>
  void send(const Order& order);
  void apply(const protocol::Commit& effect);
  void apply(const protocol::Sweep& effect);
  void apply(const protocol::Abandon& effect);
  void apply(const protocol::SetAside& effect);
  void apply(const protocol::Rewind& effect);
  void apply(const protocol::RecordStep& effect);
  void apply(const protocol::RecordEvaluation& effect);
  void apply(const protocol::ShowProgress&) {}
  void apply(const protocol::Info& effect);
  void apply(const protocol::Warn& effect);
  void apply(const protocol::Finish& effect);

  Supervisor* supervisor_;  // null: a second coordinator that was started by mistake
  const bool restarted_;
  std::uint64_t term_ = 0;
  std::optional<protocol::Coordinator> machine_;
  std::map<std::string, Connection*> workers_;
  Fifo committer_, to_supervisor_;
  int ticks_ = 0;
  Ms fed_ = 0;
  bool stop_seen_ = false, stop_known_ = false;
};

}  // namespace rekindle::sim
