// Runs work that may block on storage, in order, in its own thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace rekindle {

class Background {
 public:
  Background() : thread_([this] { serve(); }) {}
  ~Background();  // waits for all work
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void add(std::function<void()> work);
  void flush();  // waits for all work that was added before

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::uint64_t added_ = 0, done_ = 0;
  bool closing_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace rekindle
