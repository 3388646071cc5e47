// Trainers as real processes: each member is a forked child with a hub of its own, which says lines to the
// test.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"

namespace rekindle::exchange::testing {

struct Board;  // memory shared by the test and all members

// What a member's code sees.
class Member {
 public:
  Member(int id, Hub& hub, Board& board, int pipe) : id(id), hub(hub), board_(board), pipe_(pipe) {}

  // The plan of a generation of these members, ranks in this order; waits for their hubs.
  Plan plan(std::uint64_t generation, const std::vector<int>& members, int leaves, Backend backend) const;
  void say(const std::string& line) const;
  // "rank 2" / "aborted" / the error's text, of a call that failed; "ok" of one that did not.
  template <class T>
  static std::string outcome(const Result<T>& result) {
    return result ? "ok" : describe(result.error());
  }
  static std::string describe(const Error& error);

  // Marks: counters that everybody sees.
  void mark(int mark) const;
  void wait_for(int mark, int count) const;

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
  ~Cluster();  // kills who is left

  // All lines of every member, once all have ended by themselves; "killed" as the last line of a killed one.
  std::vector<std::vector<std::string>> finish();

  Endpoint endpoint(int member);
  void mark(int mark);
  void wait_for(int mark, int count);
  void kill(int member);

 private:
  struct Child {
    pid_t pid = -1;
    int pipe = -1;
  };
  Board* board_;
  std::vector<Child> children_;
};

}  // namespace rekindle::exchange::testing
