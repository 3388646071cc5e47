#include "exchange/shm_peer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/process.hpp"
#include "base/text.hpp"
#include "exchange/failure.hpp"

namespace rekindle::exchange {

Result<ShmPeer> ShmPeer::open(const Endpoint& endpoint, int rank, std::size_t floats) {
  ShmPeer peer;
  peer.rank_ = rank;
  peer.pid_ = static_cast<pid_t>(endpoint.pid);
  peer.floats_ = floats;
  // Open the pidfd before the memory. If the pid was reused before this line, the new process is younger than
  // the peer's endpoint and cannot have the nonce. So if the nonce is right, the pidfd is the peer's.
  auto process = watch_process(peer.pid_);
  if (!process) {
    if (::kill(peer.pid_, 0) != 0 && errno == ESRCH) return fail_rank(rank, process.error().line());
    return forward_error(process.error());  // not the peer's fault: no descriptor is left here
  }
  peer.process_ = std::move(*process);
  REKINDLE_TRY(peer.control_, peer.map(endpoint.control_fd, sizeof(Control)));
  const Control& control = peer.control();
  if (control.magic != kControlMagic || std::string_view(control.nonce, kNonceBytes) != endpoint.nonce)
    return fail_rank(rank, str("process ", peer.pid_, " is another process: the trainer has died"));
  if (control.floats != floats)
    return fail_rank(rank, str("its gradient has ", control.floats, " floats, this rank's has ", floats));
  return peer;
}

bool ShmPeer::find(std::uint64_t term, std::uint64_t generation) {
  if (page_ != nullptr) return true;
  for (const GenerationPage& page : control().pages) {
    const std::uint64_t stamp = page.stamp.load(std::memory_order_acquire);
    const bool same = page.term.load(std::memory_order_relaxed) == term &&
                      page.generation.load(std::memory_order_relaxed) == generation &&
                      page.rank.load(std::memory_order_relaxed) == static_cast<std::uint64_t>(rank_);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (stamp == 0 || !same || page.stamp.load(std::memory_order_relaxed) != stamp) continue;
    page_ = &page;
    stamp_ = stamp;
    return true;
  }
  return false;
}

Result<const float*> ShmPeer::slot(int i) {
  const auto index = static_cast<std::size_t>(i);
  if (slots_.size() <= index) slots_.resize(index + 1);
  if (!slots_[index]) {
    const int fd = control().slot_fds[index].load(std::memory_order_acquire);
    REKINDLE_TRY(slots_[index], map(fd, std::max<std::size_t>(floats_, 1) * sizeof(float)));
  }
  return reinterpret_cast<const float*>(slots_[index].data());
}

Result<const std::byte*> ShmPeer::staging() {
  if (!staging_) {
    const int fd = control().staging_fd.load(std::memory_order_acquire);
    REKINDLE_TRY(staging_, map(fd, kStagingBytes));
  }
  return staging_.data();
}

Result<Mapping> ShmPeer::map(int fd, std::size_t bytes) const {
  auto mapping = map_peer_segment(pid_, fd, bytes);
  if (!mapping) return fail_rank(rank_, mapping.error().line());
  return mapping;
}

}  // namespace rekindle::exchange
