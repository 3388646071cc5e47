// The process around protocol::Worker, as actors/worker.cpp is.
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
  const std::string& fingerprint() const { return fingerprint_; }  // of its build and machine
  Connection* connection() const { return connection_; }
  std::vector<TrainerProcess*> trainers() const;  // that live
  bool lost_node = false;                         // its end makes no sound

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
  void apply(const protocol::EndTrainer& effect);
  void apply(const protocol::LeaveRun& effect);
  void apply(const protocol::Warn& effect);
  int state() const;  // for the coverage

  struct Child {
    TrainerProcess* process = nullptr;
    Fifo words;
  };
  const std::string fingerprint_;
  protocol::Worker machine_;
  std::map<std::string, Child> children_;
  Connection* connection_ = nullptr;
  Connection* old_ = nullptr;  // to an older coordinator, being left
  bool connecting_ = false;
};

}  // namespace rekindle::sim
