// Two trainers on one GPU by the real NCCL, each of another host for it, through many generations.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/text.hpp"
#include "device/cuda_device.hpp"
#include "exchange/device_hub.hpp"
#include "gpu_memory.hpp"

namespace rekindle::exchange {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMembers = 2;
constexpr std::size_t kFloats = 1'000'000;

// What the members tell each other.
struct Board {
  struct Place {
    char host[256], address[64], nonce[64], nccl[256];
    std::int64_t pid;
    int control_fd;
    std::uint16_t port;
  } places[kMembers];
  std::atomic<int> there, at_step[64], wrong;
  std::atomic<std::size_t> free_early[kMembers], free_late[kMembers], files_early[kMembers],
      files_late[kMembers];
  std::atomic<int> alone_ms;
};

void put(char* to, std::size_t size, const std::string& text) { std::strncpy(to, text.c_str(), size - 1); }

std::size_t open_files() {
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) ++files;
  return files;
}

int ms_since(Clock::time_point begin) {
  return static_cast<int>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count());
}

class Member {
 public:
  Member(Board& board, int id) : board_(board), id_(id) {
    ::setenv("NCCL_HOSTID", str("host", id).c_str(), 1);
    ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    for (const char* name : {"NCCL_RAS_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_RUNTIME_CONNECT"})
      ::setenv(name, "0", 1);
    device_ = std::move(device::open_cuda_device(0).value());
    stream_ = std::move(device_->make_stream().value());
    const NcclApi api = load_nccl("libnccl.so.2").value();
    hub_ = std::move(open_device_hub({{device_.get(), stream_.get()}, api}, kFloats, "127.0.0.1").value());
    const Endpoint e = hub_->endpoint();
    Board::Place& place = board_.places[id];
    put(place.host, sizeof place.host, e.host);
    put(place.address, sizeof place.address, e.address);
    put(place.nonce, sizeof place.nonce, e.nonce);
    put(place.nccl, sizeof place.nccl, e.nccl);
    place.pid = e.pid, place.control_fd = e.control_fd, place.port = e.port;
    ++board_.there;
    while (board_.there < kMembers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::unique_ptr<Exchange> join(std::uint64_t generation, int members, int first = 0) {
    Plan plan;
    plan.term = 1, plan.generation = generation, plan.leaves = 4, plan.rank = id_ - first;
    plan.secret = str("secret ", generation);
    for (int i = first; i < first + members; ++i) {
      const Board::Place& p = board_.places[i];
      plan.members.push_back({p.host, p.pid, p.control_fd, p.address, p.port, p.nonce, p.nccl});
    }
    auto exchange = hub_->make(plan);
    if (exchange->backend() != Backend::kNccl) ++board_.wrong;
    if (const Status met = exchange->connect(); !met) {
      std::fprintf(stderr, "member %d, generation %d: %s\n", id_, static_cast<int>(generation),
                   met.error().line().c_str());
      ++board_.wrong;
    }
    return exchange;
  }

  // Each member's partial sum is `value` in every element.
  Result<float> reduce(Exchange& exchange, float value) {
    REKINDLE_TRY(const std::span<float> slot, hub_->slot(0));
    device_->run(*stream_, device::Fill{slot.data(), value, slot.size()});
    REKINDLE_TRY(const Reduced reduced, exchange.reduce({}));
    std::vector<float> sum(kFloats);
    for (const SumPiece& piece : reduced.pieces)
      device_->copy(*stream_, sum.data() + piece.first, piece.sum.data(), piece.sum.size_bytes());
    REKINDLE_CHECK(device_->synchronize(*stream_));
    REKINDLE_CHECK(exchange.release());
    for (const float each : sum)
      if (each != sum[0]) return fail("the elements differ");
    return sum[0];
  }

  void generations(int count) {
    for (int g = 1; g <= count; ++g) {
      const auto exchange = join(static_cast<std::uint64_t>(g), kMembers);
      for (int step = 0; step < 3; ++step)
        if (reduce(*exchange, static_cast<float>(g + step)).value_or(-1) !=
            static_cast<float>(2 * (g + step)))
          ++board_.wrong;
      if (g == count / 3)
        board_.free_early[id_] = rekindle::testing::free_bytes(), board_.files_early[id_] = open_files();
      if (g == count)
        board_.free_late[id_] = rekindle::testing::free_bytes(), board_.files_late[id_] = open_files();
    }
  }

  // Member 1 dies in the middle of the exchanges; member 0 is told, and goes on alone.
  void death(std::uint64_t generation) {
    const auto exchange = join(generation, kMembers);
    if (id_ == 1) {
      for (int step = 0; step < 5; ++step) static_cast<void>(reduce(*exchange, 1));
      ::kill(::getpid(), SIGKILL);
    }
    std::thread coordinator([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      exchange->abort();
    });
    Result<float> last = 0.0F;
    for (int step = 0; last; ++step) last = reduce(*exchange, 1);
    coordinator.join();
    const auto begin = Clock::now();
    const auto alone = join(generation + 1, 1);
    if (reduce(*alone, 7).value_or(-1) != 7) ++board_.wrong;
    board_.alone_ms = ms_since(begin);
  }

 private:
  Board& board_;
  const int id_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<Hub> hub_;
};

TEST(NcclGenerations, ManyOnOneGpu_LeaveNothingBehind_AndADeathEndsNobodyElse) {
  const char* const wanted = std::getenv("GENERATIONS");
  const int count = wanted == nullptr ? 30 : std::atoi(wanted);
  void* const memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Board& board = *new (memory) Board{};
  pid_t children[kMembers];
  const auto begin = Clock::now();
  for (int id = 0; id < kMembers; ++id) {
    children[id] = ::fork();
    if (children[id] != 0) continue;
    {
      Member member(board, id);
      member.generations(count);
      member.death(static_cast<std::uint64_t>(count) + 1);
    }
    ::_exit(0);
  }
  int status[kMembers];
  for (int id = 0; id < kMembers; ++id) ::waitpid(children[id], &status[id], 0);
  EXPECT_TRUE(WIFEXITED(status[0]) && WEXITSTATUS(status[0]) == 0) << status[0];
  EXPECT_TRUE(WIFSIGNALED(status[1]) && WTERMSIG(status[1]) == SIGKILL) << status[1];
  EXPECT_EQ(board.wrong, 0);
  for (int id = 0; id < kMembers; ++id) {
    EXPECT_EQ(board.files_late[id], board.files_early[id]);
    // One GPU: the numbers are of both members.
    EXPECT_NEAR(static_cast<double>(board.free_late[id]), static_cast<double>(board.free_early[id]), 64e6);
  }
  std::printf("%d generations of 3 steps in %d ms; alone again after %d ms\n", count, ms_since(begin),
              board.alone_ms.load());
}

}  // namespace
}  // namespace rekindle::exchange
