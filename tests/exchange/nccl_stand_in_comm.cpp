#include "nccl_stand_in_comm.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

namespace rekindle::exchange::stand_in {

using std::chrono::milliseconds;

const char* setting(const char* name) {
  const char* const value = std::getenv((std::string("NCCL_STAND_IN_") + name).c_str());
  return value == nullptr ? "" : value;
}
bool is_set(const char* name, const std::string& value) { return setting(name) == value; }
void pause_for(const char* name) { std::this_thread::sleep_for(milliseconds(std::atoi(setting(name)))); }

namespace {

sockaddr_un address_of(const std::string& id, int rank, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // In the abstract namespace: no file.
  const std::string name = "nccl-stand-in-" + id + "-" + std::to_string(rank);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

bool wait_on(int fd, short events, const ncclComm& comm) {
  while (!comm.ends) {
    pollfd waits{fd, events, 0};
    if (::poll(&waits, 1, 10) > 0) return true;
  }
  return false;
}

}  // namespace

// Lower ranks listen; higher ones dial.
void initialize(ncclComm& comm) {
  pause_for("SLOW_INIT_MS");
  while (is_set("STUCK", "init") && !comm.ends) std::this_thread::sleep_for(milliseconds(5));
  for (int peer = 0; peer < comm.rank && !comm.ends; ++peer) {
    socklen_t size = 0;
    const sockaddr_un to = address_of(comm.id, peer, size);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (!comm.ends && ::connect(fd, reinterpret_cast<const sockaddr*>(&to), size) != 0)
      std::this_thread::sleep_for(milliseconds(2));
    const int own = comm.rank;
    std::ignore = ::send(fd, &own, sizeof own, MSG_NOSIGNAL);
    comm.sockets[static_cast<std::size_t>(peer)] = fd;
  }
  for (int missing = comm.ranks - 1 - comm.rank; missing > 0 && wait_on(comm.listener, POLLIN, comm);
       --missing) {
    const int fd = ::accept4(comm.listener, nullptr, nullptr, SOCK_CLOEXEC);
    int peer = -1;
    if (!wait_on(fd, POLLIN, comm) || ::recv(fd, &peer, sizeof peer, MSG_WAITALL) != sizeof peer) continue;
    comm.sockets[static_cast<std::size_t>(peer)] = fd;
  }
  if (!comm.ends) comm.state = is_set("FAIL", "init") ? kSystemError : kSuccess;
}

namespace {

// What NCCL's kernels do when their communicator ends: they leave their waits, and tell the peers that data
// are there.
void send_garbage(ncclComm& comm, const std::vector<Transfer>& transfers) {
  constexpr int kTries = 200;
  const std::vector<char> garbage(std::size_t{1} << 16, 0x5a);
  for (const Transfer& each : transfers) {
    std::size_t left = each.sends ? each.left : 0;
    int tries = comm.take_nothing.contains(each.peer) ? kTries : 0;
    for (; left > 0 && tries < kTries; ++tries) {
      const ssize_t sent = ::send(comm.sockets[static_cast<std::size_t>(each.peer)], garbage.data(),
                                  std::min(left, garbage.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) {
        left -= static_cast<std::size_t>(sent);
        tries = 0;
      } else {
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
    if (left > 0) comm.take_nothing.insert(each.peer);
  }
}

}  // namespace

void move(ncclComm& comm, std::vector<Transfer> transfers) {
  while (!comm.ends) {
    std::vector<pollfd> waits;
    std::vector<Transfer*> due;
    std::set<std::pair<int, bool>> seen;
    for (Transfer& each : transfers) {
      if (each.left == 0 || !seen.insert({each.peer, each.sends}).second) continue;
      waits.push_back({comm.sockets[static_cast<std::size_t>(each.peer)],
                       static_cast<short>(each.sends ? POLLOUT : POLLIN), 0});
      due.push_back(&each);
    }
    if (due.empty()) return;
    if (::poll(waits.data(), waits.size(), 10) <= 0) continue;
    for (std::size_t i = 0; i < due.size(); ++i) {
      if (waits[i].revents == 0) continue;
      Transfer& each = *due[i];
      const ssize_t moved = each.sends
                                ? ::send(waits[i].fd, each.data, each.left, MSG_DONTWAIT | MSG_NOSIGNAL)
                                : ::recv(waits[i].fd, each.data, each.left, MSG_DONTWAIT);
      if (moved > 0) {
        each.data += moved;
        each.left -= static_cast<std::size_t>(moved);
      } else if (moved == 0 || (errno != EAGAIN && errno != EINTR)) {
        if (is_set("DEAD_PEER", "error")) comm.state = kRemoteError;
        while (!comm.ends)
          std::this_thread::sleep_for(milliseconds(1));  // as a kernel that waits for its peer
      }
    }
  }
  send_garbage(comm, transfers);
}

bool listen_as(ncclComm& comm) {
  socklen_t size = 0;
  const sockaddr_un own = address_of(comm.id, comm.rank, size);
  comm.listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return ::bind(comm.listener, reinterpret_cast<const sockaddr*>(&own), size) == 0 &&
         ::listen(comm.listener, comm.ranks) == 0;
}

void wait_for_peers(ncclComm& comm) {
  for (const int socket : comm.sockets)
    if (socket >= 0) ::shutdown(socket, SHUT_WR);
  char bytes[4096];
  for (const int socket : comm.sockets)
    while (socket >= 0 && ::recv(socket, bytes, sizeof bytes, 0) > 0) {
    }
}

void close_all(ncclComm& comm) {
  for (const int socket : comm.sockets)
    if (socket >= 0) ::close(socket);
  ::close(comm.listener);
}

}  // namespace rekindle::exchange::stand_in
