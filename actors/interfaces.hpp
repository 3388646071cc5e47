// Every message and typed interface of the control plane. What trainers and coordinator say to each other
// travels through workers as protocol messages in their JSON form (protocol/wire.hpp); a worker does not look
// inside.
#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <string>

namespace rekindle::actors {

struct Register {  // worker to coordinator, first
  std::string worker, host, build;
  std::uint64_t term = 0;  // the term that the worker means to join
};
struct Welcome {
  std::uint64_t term = 0;
  std::string refused;  // empty: registered
};
struct TrainerReport {  // worker to coordinator: a protocol::FromTrainer
  std::uint64_t term = 0;
  std::string worker, message;
};
struct WorkerBeat {
  std::uint64_t term = 0;
  std::string worker;
};
struct TrainerOrder {  // coordinator to worker: a protocol::ToTrainer for one of its trainers
  std::uint64_t term = 0;
  std::string trainer, message;
};

// Inside one process.
struct SupervisorSaid {
  std::string message;  // a protocol::ToCoordinator
};
struct SupervisorGone {
  std::uint8_t reserved = 0;
};
struct CommitOrder {
  std::uint64_t term = 0, generation = 0, step = 0;
  std::string digest, fingerprint, tensors;
  std::vector<std::string> shards;
};
struct CommitReply {
  std::uint64_t term = 0, generation = 0, step = 0, higher_term = 0;
  std::string checkpoint, error;
};
struct LocalReport {  // a trainer of this worker said something
  std::string message;
};
struct TimerTick {
  std::uint8_t reserved = 0;
};

template <class Inspector>
auto inspect(Inspector& f, Register& x) {
  return f(caf::meta::type_name("Register"), x.worker, x.host, x.build, x.term);
}
template <class Inspector>
auto inspect(Inspector& f, Welcome& x) {
  return f(caf::meta::type_name("Welcome"), x.term, x.refused);
}
template <class Inspector>
auto inspect(Inspector& f, TrainerReport& x) {
  return f(caf::meta::type_name("TrainerReport"), x.term, x.worker, x.message);
}
template <class Inspector>
auto inspect(Inspector& f, WorkerBeat& x) {
  return f(caf::meta::type_name("WorkerBeat"), x.term, x.worker);
}
template <class Inspector>
auto inspect(Inspector& f, TrainerOrder& x) {
  return f(caf::meta::type_name("TrainerOrder"), x.term, x.trainer, x.message);
}
template <class Inspector>
auto inspect(Inspector& f, SupervisorSaid& x) {
  return f(caf::meta::type_name("SupervisorSaid"), x.message);
}
template <class Inspector>
auto inspect(Inspector& f, SupervisorGone& x) {
  return f(caf::meta::type_name("SupervisorGone"), x.reserved);
}
template <class Inspector>
auto inspect(Inspector& f, CommitOrder& x) {
  return f(caf::meta::type_name("CommitOrder"), x.term, x.generation, x.step, x.digest, x.fingerprint,
           x.tensors, x.shards);
}
template <class Inspector>
auto inspect(Inspector& f, CommitReply& x) {
  return f(caf::meta::type_name("CommitReply"), x.term, x.generation, x.step, x.higher_term, x.checkpoint,
           x.error);
}
template <class Inspector>
auto inspect(Inspector& f, LocalReport& x) {
  return f(caf::meta::type_name("LocalReport"), x.message);
}
template <class Inspector>
auto inspect(Inspector& f, TimerTick& x) {
  return f(caf::meta::type_name("TimerTick"), x.reserved);
}

// What the coordinator may ask of a worker, over the network.
using WorkerActor = caf::typed_actor<caf::reacts_to<TrainerOrder>>;
// What a worker may ask of the coordinator, over the network.
using CoordinatorActor = caf::typed_actor<caf::replies_to<Register, WorkerActor>::with<Welcome>,
                                          caf::reacts_to<TrainerReport>, caf::reacts_to<WorkerBeat>>;
// The same actors as their own processes see them.
using LocalWorker = WorkerActor::extend<caf::reacts_to<LocalReport>, caf::reacts_to<TimerTick>>;
using LocalCoordinator = CoordinatorActor::extend<caf::reacts_to<SupervisorSaid>,
                                                  caf::reacts_to<SupervisorGone>, caf::reacts_to<TimerTick>>;
using Committer = caf::typed_actor<caf::replies_to<CommitOrder>::with<CommitReply>>;

}  // namespace rekindle::actors

CAF_BEGIN_TYPE_ID_BLOCK(rekindle, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::Register))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::Welcome))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::TrainerReport))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::WorkerBeat))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::TrainerOrder))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::SupervisorSaid))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::SupervisorGone))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::CommitOrder))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::CommitReply))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::LocalReport))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::TimerTick))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::WorkerActor))
CAF_END_TYPE_ID_BLOCK(rekindle)
