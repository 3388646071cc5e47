// How each fault is made. What returns false found no process that can have the fault.
#pragma once

#include "trainer.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

class Injector {
 public:
  explicit Injector(World& world) : world_(world), engine_(world.engine()) {}
  TrainerProcess* trainer();
  WorkerProcess* worker();
  bool kill(int count);
  bool crash(TrainerProcess* trainer);
  bool fail();
  bool join_other();
  // Flips a bit of the newest checkpoint on storage.
  bool damage();
  bool suspend(Process* process, Ms least, Ms most);
  bool suspend_all();
  bool hang();
  // Only in a trainer that other replicas can be compared with.
  bool flip_bit();
  bool flap();
  bool lose_node();
  bool join(bool dies);
  bool kill_coordinator();
  // The head node becomes unreachable, another node takes over the run, and the old node comes back.
  bool replace_head();
  bool second_coordinator();
  bool break_connection();
  bool partition(bool up, bool down);
  bool data_link(bool broken);
  bool disk_full();
  bool slow_disk();
  bool storage_away();
  // Forward, by up to a minute.
  bool clock_jump();
  bool stop(bool by_file);
  // Two trainers crash at the first exchange of each of the next generations.
  bool crash_again();

 private:
  World& world_;
  Engine& engine_;
};

}  // namespace rekindle::sim
