#include "device/host_device.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/process.hpp"
#include "base/text.hpp"
#include "device/gpu_claim.hpp"
#include "device/local_rank.hpp"

namespace rekindle::device {
namespace {

using Clock = std::chrono::steady_clock;

class Twin;

// A place in a stream: over when the operations before it have run.
struct Point {
  class TwinStream* stream = nullptr;
  std::uint64_t number = 0;  // of the operation that ends it
  bool over = false;
};

struct TwinEvent final : Event {
  std::shared_ptr<Point> point;  // of the last record(); nullptr: never recorded
};

struct Operation {
  std::function<Status()> act = {};  // empty: a wait, or the end of a point
  std::shared_ptr<Point> waits_for = {};
  std::shared_ptr<Point> ends = {};
  Clock::time_point latest = {};  // begins then, though nobody waits
};

// All fields under the twin's mutex.
class TwinStream final : public Stream {
 public:
  explicit TwinStream(Twin& twin);
  ~TwinStream() override;
  void* native() override { return &handle_; }

  void push(Operation operation);
  std::shared_ptr<Point> end();  // of all operations that the stream has now
  void demand(std::uint64_t number);

 private:
  void work();

  Twin& twin_;
  TwinStreamHandle handle_;
  std::deque<Operation> waiting_;
  std::uint64_t pushed_ = 0, begun_ = 0, demanded_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

class Twin final : public HostDevice {
 public:
  explicit Twin(const TwinOptions& options, std::vector<Fd> claims = {})
      : options_(options), claims_(std::move(claims)), random_(options.seed) {}

  std::string name() const override { return "host twin"; }
  std::string identity() const override {
    return options_.identity.empty() ? str(::getpid(), ":", this) : options_.identity;
  }
  // As CUDA: the current device belongs to the thread, and every call chooses it.
  void use() override { current = this; }
  bool is_in_use() const { return current == this; }
  std::string bus() const override { return options_.bus.empty() ? identity() : options_.bus; }
  int gpus() const override { return options_.gpus; }
  Status lock(std::span<std::byte>) override { return {}; }
  void unlock(std::span<std::byte>) noexcept override {}
  Result<std::unique_ptr<Stream>> make_stream() override {
    use();
    return std::make_unique<TwinStream>(*this);
  }
  Result<std::unique_ptr<Event>> make_event() override { return std::make_unique<TwinEvent>(); }

  void copy(Stream& stream, void* to, const void* from, std::size_t bytes) override {
    run(stream, [=]() -> Status {
      std::memcpy(to, from, bytes);
      return {};
    });
  }
  void run(Stream& stream, const Kernel& kernel) override {
    run(stream, [kernel]() -> Status {
      run_on_host(kernel);
      return {};
    });
  }
  void run(Stream& stream, std::function<Status()> operation) override {
    use();
    const std::lock_guard lock(mutex);
    of(stream).push({.act = std::move(operation)});
  }

  void record(Stream& stream, Event& event) override {
    const std::lock_guard lock(mutex);
    static_cast<TwinEvent&>(event).point = of(stream).end();
  }
  void wait(Stream& stream, Event& event) override {
    const std::lock_guard lock(mutex);
    if (const auto& point = static_cast<TwinEvent&>(event).point) of(stream).push({.waits_for = point});
  }
  Result<bool> is_over(Event& event) override {
    const std::lock_guard lock(mutex);
    REKINDLE_CHECK(failure);
    const auto& point = static_cast<TwinEvent&>(event).point;
    return point == nullptr || point->over;
  }
  Status synchronize(Event& event) override {
    std::unique_lock lock(mutex);
    if (const auto point = static_cast<TwinEvent&>(event).point) await(*point, lock);
    return failure;
  }
  Status synchronize(Stream& stream) override {
    std::unique_lock lock(mutex);
    await(*of(stream).end(), lock);
    return failure;
  }

  std::size_t bytes_taken() const override {
    const std::lock_guard lock(mutex);
    std::size_t all = 0;
    for (const auto& [data, bytes] : taken_) all += bytes;
    return all;
  }

  // ---- for the streams, under the mutex ----

  void await(const Point& point, std::unique_lock<std::mutex>& lock) {
    if (!point.over) point.stream->demand(point.number);
    changed.wait(lock, [&] { return point.over; });
  }
  Clock::time_point latest_begin() {
    std::uniform_int_distribution<std::uint64_t> delay(0, options_.most_ms);
    return Clock::now() + std::chrono::milliseconds(delay(random_));
  }

  void fail_for_ever(Status status) { failure = broken(std::move(status.error())); }

  mutable std::mutex mutex;
  std::condition_variable changed;
  Status failure;  // the first one
  std::vector<TwinStream*> streams;

 private:
  static TwinStream& of(Stream& stream) { return static_cast<TwinStream&>(stream); }

  static thread_local const Twin* current;

  Result<void*> take(std::size_t bytes) override {
    use();
    settle();
    if (when_full_) when_full_();  // a device may be full at any time
    const std::size_t whole = std::max<std::size_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
    void* const data =
        whole > options_.memory - bytes_taken() ? nullptr : std::aligned_alloc(kAlignment, whole);
    if (data == nullptr)
      return broken({ExitCode::kConfig, str("no memory for ", bytes, " bytes"), "use fewer trainers"});
    std::memset(data, 0, whole);
    const std::lock_guard lock(mutex);
    taken_[data] = bytes;
    return data;
  }
  void give_back(void* memory) noexcept override {
    settle();
    const std::lock_guard lock(mutex);
    taken_.erase(memory);
    std::free(memory);
  }
  // Waits for all operations.
  void settle() {
    std::unique_lock lock(mutex);
    for (TwinStream* stream : std::vector<TwinStream*>(streams)) await(*stream->end(), lock);
  }

  const TwinOptions options_;
  const std::vector<Fd> claims_;  // of its GPU
  std::mt19937_64 random_;
  std::map<void*, std::size_t> taken_;
};

thread_local const Twin* Twin::current = nullptr;

TwinStream::TwinStream(Twin& twin) : twin_(twin) {
  handle_.stream = this;
  handle_.is_in_use = [](void* stream) { return static_cast<TwinStream*>(stream)->twin_.is_in_use(); };
  handle_.run = [](void* stream, int (*operation)(void*), void* argument) {
    auto& self = *static_cast<TwinStream*>(stream);
    self.twin_.run(self, [operation, argument]() -> Status {
      const int code = operation(argument);
      if (code != 0) return fail(str("an operation of another library failed with ", code));
      return {};
    });
  };
  const std::lock_guard lock(twin_.mutex);
  twin_.streams.push_back(this);
  thread_ = std::thread([this] { work(); });
}

TwinStream::~TwinStream() {
  {
    const std::lock_guard lock(twin_.mutex);
    demand(pushed_);
    ends_ = true;
    std::erase(twin_.streams, this);
    twin_.changed.notify_all();
  }
  thread_.join();
}

void TwinStream::push(Operation operation) {
  operation.latest = twin_.latest_begin();
  waiting_.push_back(std::move(operation));
  ++pushed_;
  twin_.changed.notify_all();
}

std::shared_ptr<Point> TwinStream::end() {
  auto point = std::make_shared<Point>();
  point->stream = this;
  point->number = pushed_ + 1;
  push({.ends = point});
  return point;
}

void TwinStream::demand(std::uint64_t number) {
  if (number <= demanded_) return;
  demanded_ = number;
  twin_.changed.notify_all();
}

void TwinStream::work() {
  std::unique_lock lock(twin_.mutex);
  for (;;) {
    if (waiting_.empty()) {
      if (ends_) return;
      twin_.changed.wait(lock);
      continue;
    }
    if (begun_ >= demanded_ && Clock::now() < waiting_.front().latest) {
      twin_.changed.wait_until(lock, waiting_.front().latest);
      continue;
    }
    Operation next = std::move(waiting_.front());
    waiting_.pop_front();
    ++begun_;
    if (next.waits_for) twin_.await(*next.waits_for, lock);
    if (next.act && twin_.failure) {  // after a failure nothing runs any more, as on a GPU
      lock.unlock();
      Status status = next.act();
      lock.lock();
      if (!status && twin_.failure) twin_.fail_for_ever(std::move(status));
    }
    if (next.ends) next.ends->over = true;
    twin_.changed.notify_all();
  }
}

}  // namespace

std::unique_ptr<HostDevice> make_host_device(const TwinOptions& options) {
  return std::make_unique<Twin>(options);
}

Result<std::unique_ptr<Device>> make_host_device_for(int number) {
  std::vector<std::string> identities;
  std::istringstream list(environment_variable("REKINDLE_TWIN_GPUS"));
  for (std::string identity; std::getline(list, identity, ',');) identities.push_back(identity);
  TwinOptions options;
  const std::string memory = environment_variable("REKINDLE_TWIN_MEMORY");
  std::from_chars(memory.data(), memory.data() + memory.size(), options.memory);
  if (identities.empty()) return make_host_device(options);
  const auto open = [&](int index) -> Status {
    if (!identities[static_cast<std::size_t>(index)].starts_with('!')) return {};
    return fail(ExitCode::kConfig, str("GPU ", index, " cannot be used: it is a broken twin"), "look at it");
  };
  REKINDLE_TRY(ClaimedGpu gpu, claim_gpu(identities, number, run_of_trainer(), open));
  options.identity = identities[static_cast<std::size_t>(gpu.index)];
  options.gpus = static_cast<int>(identities.size());
  return std::make_unique<Twin>(options, std::move(gpu.claims));
}

}  // namespace rekindle::device
