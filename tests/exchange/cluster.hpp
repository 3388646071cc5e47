// Trainers as real processes: each member is a forked child with its own hub, and sends lines to the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"

namespace rekindle::exchange::testing {

using Lines = std::vector<std::string>;

// The members of later clusters have hubs for this backend: for NCCL, of a host twin, with the stand-in.
void use_backend(Backend backend);

// A device's memory in hubs, and shared memory between the hosts' slots.
inline constexpr auto kStaged = static_cast<Backend>(100);

// Small, so that most exchanges have several.
inline constexpr std::size_t kPieceOfNccl = std::size_t{32} << 10;

// Communicators of the stand-in in this process that have not been ended.
int nccl_communicators();

// A suite that runs on every backend: INSTANTIATE_TEST_SUITE_P(Exchange, Suite, kEach, backend_name)
class BackendTest : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override { use_backend(GetParam()); }
  void TearDown() override { use_backend(Backend::kAuto); }
};
inline const auto kEach = ::testing::Values(Backend::kSharedMemory, Backend::kTcp, Backend::kNccl, kStaged);
std::string name_of(Backend backend);
std::string backend_name(const ::testing::TestParamInfo<Backend>& info);

std::vector<int> first_members(int n);  // 0, 1, .. n - 1

struct Joined {
  Plan plan;
  std::unique_ptr<Exchange> exchange;
};

struct Board;  // memory shared by the test and all members

// The interface for a member's code.
class Member {
 public:
  Member(int id, Hub& hub, Board& board, int pipe) : id(id), hub(hub), board_(board), pipe_(pipe) {}

  // The plan of a generation of these members, with ranks in this order. Waits for their hubs.
  Plan plan(std::uint64_t generation, const std::vector<int>& members, int leaves, Backend backend) const;
  // Connects to the members and sends the outcome as a line.
  Joined join(std::uint64_t generation, const std::vector<int>& members, int leaves, Backend backend) const;
  void say(const std::string& line) const;
  // "rank 2", "aborted" or the error's text if the call failed; else "ok".
  template <class T>
  static std::string outcome(const Result<T>& result) {
    return result ? "ok" : describe(result.error());
  }
  static std::string describe(const Error& error);

  // Marks: counters that all members share.
  void mark(int mark) const;
  void wait_for(int mark, int count) const;
  void meet_at(int mark, int count) const;  // mark() and wait_for()

  const int id;
  Hub& hub;

 private:
  Board& board_;
  int pipe_;
};

class Cluster {
 public:
  using Body = std::function<void(Member&)>;
  Cluster(int members, std::size_t floats, const Body& body)
      : Cluster(std::vector<std::size_t>(static_cast<std::size_t>(members), floats), body) {}
  Cluster(const std::vector<std::size_t>& floats, const Body& body);
  ~Cluster();  // kills the remaining members

  // Waits until all members have ended by themselves. Returns the lines of each member. The last line of a
  // killed member is "killed".
  std::vector<Lines> finish();

  Endpoint endpoint(int member);
  void mark(int mark);
  void wait_for(int mark, int count);
  void kill(int member);
  void stop(int member);  // until go_on()
  void go_on(int member);
  // Waits until the member has used much CPU time from now on, so that it is in the middle of its work.
  void wait_until_busy(int member);

 private:
  struct Child {
    pid_t pid = -1;
    int pipe = -1;
  };
  Board* board_;
  std::vector<Child> children_;
};

}  // namespace rekindle::exchange::testing
