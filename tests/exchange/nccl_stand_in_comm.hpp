// A communicator of the stand-in for NCCL, and its connections. Internal to nccl_stand_in.
#pragma once

#include <atomic>
#include <cstddef>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/host_device.hpp"

namespace rekindle::exchange::stand_in {

enum Code { kSuccess = 0, kSystemError = 2, kInvalidArgument = 4, kRemoteError = 6, kInProgress = 7 };

// The environment variable NCCL_STAND_IN_ and `name`; "": it is not set.
const char* setting(const char* name);
bool is_set(const char* name, const std::string& value);
void pause_for(const char* name);

// A message of one rank to another, of a size that both know.
struct Transfer {
  int peer = 0;
  char* data = nullptr;
  std::size_t left = 0;
  bool sends = false;
};

}  // namespace rekindle::exchange::stand_in

struct ncclComm {
  int ranks = 0, rank = 0;
  std::string id;
  int listener = -1;
  std::vector<int> sockets;  // by rank
  std::atomic<int> state{rekindle::exchange::stand_in::kInProgress};
  std::atomic<bool> ends{false};  // revoked or aborted: operations return
  std::atomic<int> running{0};    // operations on streams, and threads of this communicator
  std::atomic<int> inside{0};     // calls that are being made
  bool ready = false, revoked = false;
  const rekindle::device::TwinStreamHandle* stream = nullptr;  // of the last group
  std::set<int> take_nothing;  // peers that have taken no garbage; of the stream's thread
  std::vector<std::thread> threads;
};

namespace rekindle::exchange::stand_in {

// Listens as a rank. False: it cannot.
bool listen_as(ncclComm& comm);
// Connects all ranks, and sets the state.
void initialize(ncclComm& comm);
// Moves all bytes, those of one peer and direction in their order. If the communicator ends, what is not sent
// yet is garbage.
void move(ncclComm& comm, std::vector<Transfer> transfers);
// Until none of them sends any more.
void wait_for_peers(ncclComm& comm);
void close_all(ncclComm& comm);

}  // namespace rekindle::exchange::stand_in
