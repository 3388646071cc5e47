// The process around protocol::Worker, like actors/worker.cpp.
#pragma once

#include <map>
#include <string>

#include "network.hpp"
#include "process.hpp"
#include "protocol/worker.hpp"
#include "trainer.hpp"

namespace rekindle::sim {

class WorkerProcess : public Process {
 public:
  WorkerProcess(World& world, std::string name, std::string host, bool joined, std::string fingerprint);
  void begin();

  void feed(const protocol::WorkerEvent& event);
  void connected(Connection& connection);
  void not_connected(std::uint64_t term);
  void lost(Connection& connection);

  const protocol::Worker& machine() const { return machine_; }
  const std::string& fingerprint() const { return fingerprint_; }  // fingerprint of its build and machine
  Connection* connection() const { return connection_; }
  std::vector<TrainerProcess*> trainers() const;  // trainers that are alive
  bool lost_node = false;                         // the node is lost: no connection is closed

 protected:
  void ended(bool by_signal, int code) override;

 private:
  void tick();
  void poll();
  void leave_old();
  void apply(const protocol::Connect& effect);
  void apply(const protocol::SendRegistration& effect);
  void apply(const protocol::SendReport& effect);
  void apply(const protocol::SendBeat& effect);
  void apply(const protocol::PassOn& effect);
  void apply(const protocol::StartTrainer& effect);
  void apply(const protocol::KillTrainer& effect);
  void apply(const protocol::LeaveRun& effect);
  void apply(const protocol::Warn& effect);
  int state() const;  // for the coverage

  struct Child {
    TrainerProcess* process = nullptr;
    Fifo orders;
  };
  const std::string fingerprint_;
  protocol::Worker machine_;
  std::map<std::string, Child> children_;
  Connection* connection_ = nullptr;
  Connection* old_ = nullptr;  // connection to an older coordinator, about to be closed
  bool connecting_ = false;
};

}  // namespace rekindle::sim
