// Every message and typed interface of the control plane. Protocol messages between trainers and coordinator
// pass through workers in their JSON form (protocol/wire.hpp).
#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/messages.hpp"

namespace rekindle::protocol {

// Beats are frequent, so they use CAF's binary form.
template <class Inspector>
auto inspect(Inspector& f, GenerationId& x) {
  return f(caf::meta::type_name("GenerationId"), x.term, x.number);
}
template <class Inspector>
auto inspect(Inspector& f, TrainerBeat& x) {
  return f(caf::meta::type_name("TrainerBeat"), x.trainer, x.phase, x.generation, x.step, x.progress,
           x.waiting_for, x.peak_pss_bytes, x.blocks_written, x.use.cpu_percent, x.use.memory_bytes,
           x.gpu.used_bytes, x.gpu.total_bytes, x.gpu.busy_percent);
}
template <class Inspector>
auto inspect(Inspector& f, KillTrainer& x) {
  return f(caf::meta::type_name("KillTrainer"), x.term, x.worker, x.trainer, x.why);
}
template <class Inspector>
auto inspect(Inspector& f, Dismiss& x) {
  return f(caf::meta::type_name("Dismiss"), x.term, x.worker, x.exit_code, x.why);
}
template <class Inspector>
auto inspect(Inspector& f, RegisterAgain& x) {
  return f(caf::meta::type_name("RegisterAgain"), x.term, x.worker);
}

}  // namespace rekindle::protocol

namespace rekindle::actors {

struct Register {               // worker to coordinator, first on a connection
  std::uint64_t term = 0;       // the term that the worker means to join
  std::string worker, message;  // a protocol::Registration
};
struct Welcome {  // the coordinator's answer, sent before any order
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
  std::vector<protocol::TrainerBeat> trainers;
};
struct Recipient {
  std::string trainer;
  std::int32_t rank = -1;  // in the generation that a Start begins
};
struct TrainerOrder {  // coordinator to worker: a protocol::ToTrainer for some or all of its trainers
  std::uint64_t term = 0;
  std::vector<Recipient> to;
  std::string message;  // equal for all recipients except the rank
};

// Inside one process.
struct FromSupervisor {
  std::string message;  // a protocol::ToCoordinator
};
struct SupervisorGone {
  std::uint8_t reserved = 0;
};
struct CommitOrder {
  std::uint64_t own_term = 0;  // the coordinator's term; the checkpoint's term may be older
  std::uint64_t term = 0, generation = 0, step = 0;
  std::string digest, fingerprint, tensors;
  std::vector<std::string> shards;
  std::vector<std::string> pinned;  // no sweep removes these checkpoints
};
struct CommitReply {
  std::uint64_t term = 0, generation = 0, step = 0, higher_term = 0;
  std::string checkpoint, fingerprint, error;
  std::vector<std::string> committed;  // checkpoints, after the sweep; none: unknown
};
struct SweepOrder {  // a protocol::Sweep
  std::uint64_t own_term = 0, term = 0, generation = 0;
  std::string restored;
};
struct SweepReply {
  std::vector<std::string> committed;  // checkpoints, after the sweep; none: unknown
};
struct TermCheck {  // whether a newer term than this exists
  std::uint64_t term = 0;
};
struct TermCheckReply {
  std::uint64_t newest = 0;
};
struct StopCheck {  // whether `rekindle stop` was called
  char reserved = 0;
};
struct StopCheckReply {
  bool asked = false;
};
struct LocalTerm {  // a coordinator of this term has published its address
  std::uint64_t term = 0;
};
struct LocalConnection {
  std::uint64_t term = 0;
};
struct LocalReport {  // a message of a trainer of this worker: a protocol::FromTrainer
  std::string trainer, message;
};
struct LocalEnd {  // a trainer of this worker ended
  std::string trainer;
  bool by_signal = false;
  std::int32_t code = 0;
};
struct TimerTick {
  std::uint8_t reserved = 0;
};

template <class Inspector>
auto inspect(Inspector& f, Register& x) {
  return f(caf::meta::type_name("Register"), x.term, x.worker, x.message);
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
  return f(caf::meta::type_name("WorkerBeat"), x.term, x.worker, x.trainers);
}
template <class Inspector>
auto inspect(Inspector& f, Recipient& x) {
  return f(caf::meta::type_name("Recipient"), x.trainer, x.rank);
}
template <class Inspector>
auto inspect(Inspector& f, TrainerOrder& x) {
  return f(caf::meta::type_name("TrainerOrder"), x.term, x.to, x.message);
}
template <class Inspector>
auto inspect(Inspector& f, FromSupervisor& x) {
  return f(caf::meta::type_name("FromSupervisor"), x.message);
}
template <class Inspector>
auto inspect(Inspector& f, SupervisorGone& x) {
  return f(caf::meta::type_name("SupervisorGone"), x.reserved);
}
template <class Inspector>
auto inspect(Inspector& f, CommitOrder& x) {
  return f(caf::meta::type_name("CommitOrder"), x.own_term, x.term, x.generation, x.step, x.digest,
           x.fingerprint, x.tensors, x.shards, x.pinned);
}
template <class Inspector>
auto inspect(Inspector& f, CommitReply& x) {
  return f(caf::meta::type_name("CommitReply"), x.term, x.generation, x.step, x.higher_term, x.checkpoint,
           x.fingerprint, x.error, x.committed);
}
template <class Inspector>
auto inspect(Inspector& f, SweepOrder& x) {
  return f(caf::meta::type_name("SweepOrder"), x.own_term, x.term, x.generation, x.restored);
}
template <class Inspector>
auto inspect(Inspector& f, SweepReply& x) {
  return f(caf::meta::type_name("SweepReply"), x.committed);
}
template <class Inspector>
auto inspect(Inspector& f, TermCheck& x) {
  return f(caf::meta::type_name("TermCheck"), x.term);
}
template <class Inspector>
auto inspect(Inspector& f, TermCheckReply& x) {
  return f(caf::meta::type_name("TermCheckReply"), x.newest);
}
template <class Inspector>
auto inspect(Inspector& f, StopCheck& x) {
  return f(caf::meta::type_name("StopCheck"), x.reserved);
}
template <class Inspector>
auto inspect(Inspector& f, StopCheckReply& x) {
  return f(caf::meta::type_name("StopCheckReply"), x.asked);
}
template <class Inspector>
auto inspect(Inspector& f, LocalTerm& x) {
  return f(caf::meta::type_name("LocalTerm"), x.term);
}
template <class Inspector>
auto inspect(Inspector& f, LocalConnection& x) {
  return f(caf::meta::type_name("LocalConnection"), x.term);
}
template <class Inspector>
auto inspect(Inspector& f, LocalReport& x) {
  return f(caf::meta::type_name("LocalReport"), x.trainer, x.message);
}
template <class Inspector>
auto inspect(Inspector& f, LocalEnd& x) {
  return f(caf::meta::type_name("LocalEnd"), x.trainer, x.by_signal, x.code);
}
template <class Inspector>
auto inspect(Inspector& f, TimerTick& x) {
  return f(caf::meta::type_name("TimerTick"), x.reserved);
}

// Messages from the coordinator to a worker, over the network.
using WorkerActor =
    caf::typed_actor<caf::reacts_to<Welcome>, caf::reacts_to<TrainerOrder>,
                     caf::reacts_to<protocol::KillTrainer>, caf::reacts_to<protocol::RegisterAgain>,
                     caf::reacts_to<protocol::Dismiss>>;
// Messages from a worker to the coordinator, over the network.
using CoordinatorActor = caf::typed_actor<caf::reacts_to<Register, WorkerActor>,
                                          caf::reacts_to<TrainerReport>, caf::reacts_to<WorkerBeat>>;
// The same actors with the messages inside their own processes.
using LocalWorker =
    WorkerActor::extend<caf::reacts_to<LocalTerm>, caf::reacts_to<LocalConnection, CoordinatorActor>,
                        caf::reacts_to<LocalConnection>, caf::reacts_to<LocalReport>,
                        caf::reacts_to<LocalEnd>, caf::reacts_to<TimerTick>>;
using LocalCoordinator = CoordinatorActor::extend<caf::reacts_to<FromSupervisor>,
                                                  caf::reacts_to<SupervisorGone>, caf::reacts_to<TimerTick>>;
// Operations that block on storage.
using Committer = caf::typed_actor<
    caf::replies_to<CommitOrder>::with<CommitReply>, caf::replies_to<SweepOrder>::with<SweepReply>,
    caf::replies_to<TermCheck>::with<TermCheckReply>, caf::replies_to<StopCheck>::with<StopCheckReply>>;

// Ends the process if a handler of the actor throws, which is a program error. CAF alone would end the actor
// and leave a process that answers nobody; a process that died is replaced at once.
void end_process_on_exception(caf::scheduled_actor& actor);

}  // namespace rekindle::actors

CAF_BEGIN_TYPE_ID_BLOCK(rekindle, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::Register))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::Welcome))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::TrainerReport))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::WorkerBeat))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::Recipient))
CAF_ADD_TYPE_ID(rekindle, (std::vector<rekindle::actors::Recipient>))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::TrainerOrder))
CAF_ADD_TYPE_ID(rekindle, (rekindle::protocol::KillTrainer))
CAF_ADD_TYPE_ID(rekindle, (rekindle::protocol::RegisterAgain))
CAF_ADD_TYPE_ID(rekindle, (rekindle::protocol::Dismiss))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::FromSupervisor))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::SupervisorGone))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::CommitOrder))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::CommitReply))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::SweepOrder))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::SweepReply))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::TermCheck))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::TermCheckReply))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::StopCheck))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::StopCheckReply))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::LocalTerm))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::LocalConnection))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::LocalReport))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::LocalEnd))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::TimerTick))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::WorkerActor))
CAF_ADD_TYPE_ID(rekindle, (rekindle::actors::CoordinatorActor))
CAF_ADD_TYPE_ID(rekindle, (rekindle::protocol::GenerationId))
CAF_ADD_TYPE_ID(rekindle, (rekindle::protocol::TrainerPhase))
CAF_ADD_TYPE_ID(rekindle, (rekindle::protocol::TrainerBeat))
CAF_ADD_TYPE_ID(rekindle, (std::vector<rekindle::protocol::TrainerBeat>))
CAF_END_TYPE_ID_BLOCK(rekindle)
