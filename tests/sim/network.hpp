// Connections between workers and coordinators: messages arrive in order, late, delayed by partitions, or are
// lost with the connection.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/worker.hpp"

namespace rekindle::sim {

class World;
class WorkerProcess;
class CoordinatorProcess;

struct Connection {
  WorkerProcess* worker = nullptr;
  CoordinatorProcess* coordinator = nullptr;
  std::uint64_t term = 0;
  bool worker_end = true, coordinator_end = true;  // open, from the view of that side
  bool silent = false;                             // all messages are lost
  Fifo up, down;
};

class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  // Answers the worker with Connected or Disconnected.
  void connect(WorkerProcess& worker, std::uint64_t term);
  void to_coordinator(Connection& connection, std::function<void(CoordinatorProcess&)> what);
  void to_worker(Connection& connection, std::function<void(WorkerProcess&)> what);
  void close_from_worker(Connection& connection);
  void close_from_coordinator(Connection& connection);

  // ---- faults ----
  void hold_up(const std::string& host, Ms until) { up_held_[host] = std::max(up_held_[host], until); }
  void hold_down(const std::string& host, Ms until) { down_held_[host] = std::max(down_held_[host], until); }
  void lose(Connection& connection, Ms worker_learns, Ms coordinator_learns);
  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_; }

 private:
  Ms delay(const std::map<std::string, Ms>& held, const std::string& host) const;

  World& world_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<std::string, Ms> up_held_, down_held_;  // by the worker's host
};

}  // namespace rekindle::sim
