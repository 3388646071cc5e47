// The process around protocol::Coordinator, like actors/coordinator.cpp and actors/coordinator_host.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "committer.hpp"
#include "disk.hpp"
#include "network.hpp"
#include "process.hpp"
#include "protocol/coordinator.hpp"
#include "run/claimant.hpp"

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
  // As run::term_in_charge: what this host sees.
  Result<std::uint64_t> term_in_charge() const;

 protected:
  void ended(bool by_signal, int code) override;

 private:
  std::optional<run::SeenTerm> seen_term() const;
  bool answers(const TermHolder& holder) const;
  void claim();
  void look_again(Ms began);
  void refused();
  void await_newest(Ms waited);
  void come_up();
  template <class TryAgain>
  bool storage_is_away(TryAgain again);
  protocol::CoordinatorConfig survey() const;
  void tick();
  void look_for_newer_term();
  bool in_charge() const;

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
  void apply(const protocol::RecordLoss&) {}
  void apply(const protocol::ShowProgress&) {}
  void apply(const protocol::Info& effect);
  void apply(const protocol::Warn& effect);
  void apply(const protocol::Finish& effect);

  Supervisor* supervisor_;  // null: a second coordinator that was started by mistake
  const bool restarted_;
  std::uint64_t term_ = 0;
  std::optional<protocol::Coordinator> machine_;
  std::map<std::string, Connection*> workers_;
  run::Claimant claimant_;
  Committer committer_;
  Fifo to_supervisor_;
  int ticks_ = 0;
  Ms fed_ = 0;
  bool stop_seen_ = false, stop_known_ = false;
};

}  // namespace rekindle::sim
