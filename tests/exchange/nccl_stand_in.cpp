// A stand-in for libnccl.so.2, for machines without a GPU: the calls that are used, over host memory and
// local sockets, on the streams of the host twin (device/host_device.hpp). It ends the process with a line if
// a call breaks a rule of NCCL's guide and source: a call after abort, groups that do not pair, two threads
// at once, use before ncclSuccess, a revoke while initialising, a second revoke, an end in a thread that has
// not chosen the device.
//
// Environment, read at each call: NCCL_STAND_IN_
//   VERSION       the version code (22809); before 22807 there is no ncclCommRevoke
//   SLOW_INIT_MS  the initialisation takes so long
//   SLOW_TAKE_MS  a group is taken so long after its end
//   STUCK         "init": the initialisation never ends. "end": revoke and abort do not return while the
//   variable is set
//   FAIL          "init": the initialisation ends with an error. "group": every group does. "revoke": revoke
//                 is refused. "kernel": what a group puts on its stream fails
//   DEAD_PEER     "error": the death of a peer is an asynchronous error; otherwise operations
//   hang, as over NVLink
//   PEERS         "local": revoke and abort wait until every peer has revoked, has aborted or is gone, as
//                 NCCL's proxies of one machine do
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/host_device.hpp"
#include "nccl_stand_in_comm.hpp"

namespace {

using rekindle::device::TwinStreamHandle;
using std::chrono::milliseconds;
using namespace rekindle::exchange::stand_in;

constexpr int kFloat = 7;

struct Id {
  char bytes[128];
};

[[noreturn]] void misuse(const char* what) {
  std::fprintf(stderr, "nccl stand-in: misuse: %s\n", what);
  std::abort();
}

std::mutex all_mutex;
std::set<ncclComm*> all;  // those that exist

// A call: the communicator exists, and no other thread is inside.
class Inside {
 public:
  explicit Inside(ncclComm* comm) : comm_(comm) {
    const std::lock_guard lock(all_mutex);
    if (!all.contains(comm)) misuse("a call with a communicator that was aborted, or never made");
    if (comm_->inside.fetch_add(1) > 0) misuse("two threads are inside NCCL with one communicator");
  }
  ~Inside() { --comm_->inside; }
  Inside(const Inside&) = delete;

 private:
  ncclComm* const comm_;
};

struct Operation {
  ncclComm* comm;
  std::vector<Transfer> transfers;
  std::vector<std::pair<std::pair<char*, const char*>, std::size_t>> own;  // copies within the rank
};

int run(void* argument) {
  const std::unique_ptr<Operation> operation(static_cast<Operation*>(argument));
  if (is_set("FAIL", "kernel")) {
    --operation->comm->running;
    return 1;
  }
  for (const auto& [places, bytes] : operation->own) std::memmove(places.first, places.second, bytes);
  move(*operation->comm, std::move(operation->transfers));
  --operation->comm->running;
  return 0;
}

// An end is a call of the device's library, too.
void on_its_device(const ncclComm& comm) {
  if (comm.stream != nullptr && !comm.stream->is_in_use(comm.stream->stream))
    misuse("an end in a thread whose current device is another one");
}

// The calls of a group, of this thread.
struct Group {
  int depth = 0;
  ncclComm* comm = nullptr;
  const TwinStreamHandle* stream = nullptr;
  std::unique_ptr<Operation> operation;
};
thread_local Group group;

Operation& operation_of(ncclComm* comm, void* stream) {
  if (group.depth == 0) misuse("a send, receive or all-gather outside of a group");
  if (!comm->ready && comm->state != kSuccess) misuse("use before ncclSuccess");
  if (comm->revoked) misuse("a call after revoke");
  comm->ready = true;
  comm->stream = static_cast<const TwinStreamHandle*>(stream);
  if (!group.operation) {
    group.operation = std::make_unique<Operation>(Operation{comm, {}, {}});
    group.comm = comm;
    group.stream = static_cast<const TwinStreamHandle*>(stream);
  }
  if (group.comm != comm || group.stream != stream) misuse("a group with two communicators or streams");
  return *group.operation;
}

void stay_while_stuck() {
  while (is_set("STUCK", "end")) std::this_thread::sleep_for(milliseconds(2));
}

// Waits until no operation of the communicator runs.
void quiet(ncclComm& comm) {
  comm.ends = true;
  while (comm.running > 0) std::this_thread::sleep_for(milliseconds(1));
  if (is_set("PEERS", "local")) wait_for_peers(comm);
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = *setting("VERSION") != 0 ? std::atoi(setting("VERSION")) : 22809;
  return kSuccess;
}

int ncclGetUniqueId(Id* id) {
  static std::atomic<int> made{0};
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->bytes, sizeof id->bytes, "%d-%d-%ld", ::getpid(), made.fetch_add(1),
                std::chrono::steady_clock::now().time_since_epoch().count());
  return kSuccess;
}

int ncclCommInitRankConfig(ncclComm** comm, int ranks, Id id, int rank, const void* config) {
  struct Begin {
    std::size_t size;
    unsigned magic, version;
    int blocking;
  };
  const auto* const begin = static_cast<const Begin*>(config);
  if (begin == nullptr || begin->magic != 0xcafebeef || begin->size < sizeof(Begin) || begin->blocking != 0)
    misuse("a configuration that is not of a non-blocking communicator");
  auto* const made = new ncclComm;
  made->ranks = ranks;
  made->rank = rank;
  made->id = id.bytes;
  made->sockets.assign(static_cast<std::size_t>(ranks), -1);
  if (!listen_as(*made)) return kInvalidArgument;
  ++made->running;
  made->threads.emplace_back([made] {
    initialize(*made);
    --made->running;
  });
  const std::lock_guard lock(all_mutex);
  all.insert(made);
  *comm = made;
  return kInProgress;
}

int ncclCommGetAsyncError(ncclComm* comm, int* state) {
  const Inside inside(comm);
  *state = comm->state;
  return kSuccess;
}

int ncclGroupStart() {
  ++group.depth;
  return kSuccess;
}

int ncclGroupEnd() {
  if (group.depth == 0) misuse("a group ends that has not begun");
  if (--group.depth > 0 || !group.operation) return kSuccess;
  ncclComm* const comm = group.comm;
  const Inside inside(comm);
  comm->state = kInProgress;
  ++comm->running;  // the operation's
  ++comm->running;  // the thread's
  // Taken by another thread, so that what goes on the stream before ncclSuccess comes before the group.
  comm->threads.emplace_back([comm, stream = group.stream, operation = group.operation.release()] {
    pause_for("SLOW_TAKE_MS");
    if (is_set("FAIL", "group")) {
      comm->state = kSystemError;
      comm->running -= 2;
      delete operation;
      return;
    }
    stream->run(stream->stream, run, operation);
    int in_progress = kInProgress;
    comm->state.compare_exchange_strong(in_progress, kSuccess);
    --comm->running;
  });
  return kInProgress;
}

int ncclSend(const void* from, std::size_t count, int type, int peer, ncclComm* comm, void* stream) {
  const Inside inside(comm);
  if (type != kFloat || peer < 0 || peer >= comm->ranks || peer == comm->rank) return kInvalidArgument;
  operation_of(comm, stream)
      .transfers.push_back({peer, static_cast<char*>(const_cast<void*>(from)), count * sizeof(float), true});
  return kSuccess;
}

int ncclRecv(void* to, std::size_t count, int type, int peer, ncclComm* comm, void* stream) {
  const Inside inside(comm);
  if (type != kFloat || peer < 0 || peer >= comm->ranks || peer == comm->rank) return kInvalidArgument;
  operation_of(comm, stream)
      .transfers.push_back({peer, static_cast<char*>(to), count * sizeof(float), false});
  return kSuccess;
}

int ncclAllGather(const void* from, void* to, std::size_t count, int type, ncclComm* comm, void* stream) {
  const Inside inside(comm);
  if (type != kFloat) return kInvalidArgument;
  Operation& operation = operation_of(comm, stream);
  const std::size_t bytes = count * sizeof(float);
  auto* const out = static_cast<char*>(to);
  const auto* const in = static_cast<const char*>(from);
  char* const own = out + static_cast<std::size_t>(comm->rank) * bytes;
  if (own != in) operation.own.push_back({{own, in}, bytes});
  for (int peer = 0; peer < comm->ranks; ++peer) {
    if (peer == comm->rank) continue;
    operation.transfers.push_back({peer, const_cast<char*>(in), bytes, true});
    operation.transfers.push_back({peer, out + static_cast<std::size_t>(peer) * bytes, bytes, false});
  }
  return kSuccess;
}

int ncclCommRevoke(ncclComm* comm, int flags) {
  const Inside inside(comm);
  if (flags != 0) return kInvalidArgument;
  on_its_device(*comm);
  if (is_set("FAIL", "revoke")) return kSystemError;
  if (comm->revoked) misuse("a second revoke");
  if (comm->state == kInProgress) misuse("a revoke while initialising, or while a group is taken");
  comm->revoked = true;
  stay_while_stuck();
  quiet(*comm);  // an error that a peer's end has made stays
  return kInProgress;
}

int ncclCommAbort(ncclComm* comm) {
  {
    const Inside inside(comm);
    on_its_device(*comm);
    stay_while_stuck();
    quiet(*comm);
    const std::lock_guard lock(all_mutex);
    all.erase(comm);
  }
  for (std::thread& thread : comm->threads) thread.join();
  close_all(*comm);
  delete comm;
  return kSuccess;
}

const char* ncclGetLastError(ncclComm*) { return "the stand-in's error"; }

// For tests: the communicators of this process that have not been ended.
int nccl_stand_in_communicators() {
  const std::lock_guard lock(all_mutex);
  return static_cast<int>(all.size());
}

}  // extern "C"
