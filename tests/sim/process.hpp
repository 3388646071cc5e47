// A virtual process. Its actions wait while the process is suspended, and are dropped when it dies.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine.hpp"

namespace rekindle::sim {

class World;

class Process {
 public:
  Process(World& world, std::string name, std::string host)
      : world_(world), name_(std::move(name)), host_(std::move(host)) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  const std::string& host() const { return host_; }
  bool alive() const { return alive_; }
  bool suspended() const { return suspended_ > 0; }
  World& world() const { return world_; }
  // What the host's clock shows: it may be ahead of virtual time (Fault::kClockJump).
  Ms clock() const;

  // Runs `what` in this process after `delay`.
  void after(Ms delay, std::function<void()> what);
  void suspend();
  void resume();
  void kill();             // SIGKILL
  void crash(int signal);  // not from outside
  void exit(int code);

 protected:
  // Called when the process ends: notifies other processes.
  virtual void ended(bool by_signal, int code) = 0;

 private:
  void end(bool by_signal, int code);
  void arrive(std::function<void()> what);

  World& world_;
  const std::string name_, host_;
  bool alive_ = true;
  int suspended_ = 0;  // number of suspend() calls not yet resumed
  std::vector<std::function<void()>> waiting_;
};

// Messages from one process to another, in order.
class Fifo {
 public:
  void send(Process& to, Ms delay, std::function<void()> what);
  // No message arrives before that time.
  void hold_until(Ms when) { last_ = std::max(last_, when); }

 private:
  Ms last_ = 0;
};

}  // namespace rekindle::sim
