#include "cluster.hpp"

#include <dlfcn.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "device/host_device.hpp"
#include "exchange/device_hub.hpp"
#include "exchange/futex.hpp"

namespace rekindle::exchange::testing {
namespace {

constexpr int kMaxMembers = 16, kMaxMarks = 16;
constexpr std::chrono::seconds kLimit{60};  // generous: a test that reaches the limit has failed

struct Place {
  std::atomic<bool> there;
  std::int64_t pid;
  int control_fd;
  std::uint16_t port;
  char host[256], address[64], nonce[64];
};

Backend backend_of_hubs = Backend::kAuto;

Result<std::unique_ptr<Hub>> open_hub(std::size_t floats) {
  if (backend_of_hubs != Backend::kNccl && backend_of_hubs != kStaged) return Hub::open(floats, "127.0.0.1");
  static const std::unique_ptr<device::HostDevice> device =
      device::make_host_device();  // of this member's process
  static const std::unique_ptr<device::Stream> stream = device->make_stream().value();
  DeviceHubOptions options{.place = {device.get(), stream.get()}, .nccl = std::nullopt};
  if (backend_of_hubs == Backend::kNccl) {
    REKINDLE_TRY(options.nccl, load_nccl(REKINDLE_NCCL_STAND_IN));
    options.limits.piece_bytes = kPieceOfNccl;
  }
  return open_device_hub(options, floats, "127.0.0.1");
}

std::chrono::nanoseconds cpu_time(pid_t process) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

std::string backend_name(const ::testing::TestParamInfo<Backend>& info) { return name_of(info.param); }

std::string name_of(Backend backend) {
  if (backend == kStaged) return "Staged";
  return backend == Backend::kTcp ? "Tcp" : backend == Backend::kNccl ? "Nccl" : "SharedMemory";
}

int nccl_communicators() {
  void* const library = ::dlopen(REKINDLE_NCCL_STAND_IN, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  return reinterpret_cast<int (*)()>(::dlsym(library, "nccl_stand_in_communicators"))();
}

void use_backend(Backend backend) { backend_of_hubs = backend; }

std::vector<int> first_members(int n) {
  std::vector<int> ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

struct Board {
  Place places[kMaxMembers];
  std::atomic<int> marks[kMaxMarks];
  std::atomic<std::uint32_t> bell;

  void ring() {
    bell.fetch_add(1);
    futex_wake_all(bell);
  }
  template <class Condition>
  void wait(Condition condition) {
    const auto end = boot_time() + kLimit;
    for (;;) {
      const std::uint32_t seen = bell.load();
      if (condition()) return;
      if (boot_time() > end) throw std::runtime_error("waited too long for a mark");
      futex_wait(bell, seen, 1000);
    }
  }
  Endpoint endpoint(int member) {
    const Place& place = places[member];
    wait([&] { return place.there.load(); });
    return {place.host, place.pid, place.control_fd, place.address, place.port, place.nonce, ""};
  }
};

Plan Member::plan(std::uint64_t generation, const std::vector<int>& members, int leaves,
                  Backend backend) const {
  Plan plan;
  plan.term = 7;
  plan.generation = generation;
  plan.leaves = leaves;
  plan.backend = backend == kStaged ? Backend::kSharedMemory : backend;
  plan.secret = str("secret of generation ", generation);
  for (const int member : members) plan.members.push_back(board_.endpoint(member));
  plan.rank = static_cast<int>(std::find(members.begin(), members.end(), id) - members.begin());
  return plan;
}

Joined Member::join(std::uint64_t generation, const std::vector<int>& members, int leaves,
                    Backend backend) const {
  Joined joined{plan(generation, members, leaves, backend), nullptr};
  joined.exchange = hub.make(joined.plan);
  say(outcome(joined.exchange->connect()));
  return joined;
}

void Member::say(const std::string& line) const {
  const std::string text = line + '\n';
  if (::write(pipe_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
}

std::string Member::describe(const Error& error) {
  if (error.kind == ErrorKind::kAborted) return "aborted";
  if (const int rank = error.rank; rank >= 0) return str("rank ", rank);
  return error.line();
}

void Member::mark(int mark) const {
  board_.marks[mark].fetch_add(1);
  board_.ring();
}

void Member::wait_for(int mark, int count) const {
  board_.wait([&] { return board_.marks[mark].load() >= count; });
}

void Member::meet_at(int mark, int count) const {
  this->mark(mark);
  wait_for(mark, count);
}

Cluster::Cluster(const std::vector<std::size_t>& floats, const Body& body) {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  board_ = new (memory) Board{};
  for (int id = 0; id < static_cast<int>(floats.size()); ++id) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[0]);
      int status = 0;
      try {
        auto hub = open_hub(floats[id]);
        if (!hub) throw std::runtime_error(hub.error().line());
        const Endpoint e = (*hub)->endpoint();
        Place& place = board_->places[id];
        place.pid = e.pid;
        place.control_fd = e.control_fd;
        place.port = e.port;
        std::strncpy(place.host, e.host.c_str(), sizeof place.host - 1);
        std::strncpy(place.address, e.address.c_str(), sizeof place.address - 1);
        std::strncpy(place.nonce, e.nonce.c_str(), sizeof place.nonce - 1);
        place.there.store(true);
        board_->ring();
        Member member(id, **hub, *board_, ends[1]);
        body(member);
      } catch (const std::exception& e) {
        dprintf(ends[1], "exception: %s\n", e.what());
        status = 1;
      }
      ::_exit(status);
    }
    ::close(ends[1]);
    children_.push_back({pid, ends[0]});
  }
}

Cluster::~Cluster() {
  for (const Child& child : children_) {
    if (child.pid > 0) {
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
    ::close(child.pipe);
  }
  ::munmap(board_, sizeof(Board));
}

std::vector<Lines> Cluster::finish() {
  std::vector<Lines> lines;
  const auto end = boot_time() + kLimit;
  for (Child& child : children_) {
    std::string text;
    for (;;) {
      pollfd ready{child.pipe, POLLIN, 0};
      const auto left = std::max<long>(0, (end - boot_time()).count());
      if (::poll(&ready, 1, static_cast<int>(left)) == 0) {
        text += "hangs\n";
        ::kill(child.pid, SIGKILL);
        break;
      }
      char buffer[4096];
      const ssize_t n = ::read(child.pipe, buffer, sizeof buffer);
      if (n <= 0) break;
      text.append(buffer, static_cast<std::size_t>(n));
    }
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    child.pid = -1;
    if (WIFSIGNALED(status)) text += WTERMSIG(status) == SIGKILL ? "killed\n" : "crashed\n";
    lines.emplace_back();
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.back().push_back(line);
  }
  return lines;
}

Endpoint Cluster::endpoint(int member) { return board_->endpoint(member); }

void Cluster::mark(int mark) {
  board_->marks[mark].fetch_add(1);
  board_->ring();
}

void Cluster::wait_for(int mark, int count) {
  board_->wait([&] { return board_->marks[mark].load() >= count; });
}

// The process is dead when this returns: what is told to the others afterwards comes after its death.
void Cluster::kill(int member) {
  const pid_t process = children_[member].pid;
  ::kill(process, SIGKILL);
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOWAIT);
}
void Cluster::stop(int member) { ::kill(children_[member].pid, SIGSTOP); }
void Cluster::go_on(int member) { ::kill(children_[member].pid, SIGCONT); }

void Cluster::wait_until_busy(int member) {
  const pid_t process = children_[member].pid;
  const auto enough = cpu_time(process) + std::chrono::milliseconds(100);
  const auto end = boot_time() + kLimit;
  while (cpu_time(process) < enough) {
    if (boot_time() > end) throw std::runtime_error("waited too long for a member to work");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace rekindle::exchange::testing
