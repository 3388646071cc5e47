#include "data/test_reader.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "base/text.hpp"
#include "data/enough_memory.hpp"
#include "data/read_sample.hpp"
#include "data/threads.hpp"

namespace rekindle::data {

namespace {

constexpr const char* kSmaller = "a smaller --batch-size, or fewer threads";

// Without the run's seed: all runs, and `rekindle evaluate` of any file, are measured on the same samples.
std::uint64_t key_of_test_sample(std::size_t index) { return stream_key(0, Draws::kEvaluate, {index}); }

}  // namespace

// Threads take the places of a batch one by one. A batch is done when none is left and nobody reads any more.
struct TestReader::Impl {
  const Dataset& dataset;
  const TransformConfig transform;
  const int wanted;

  std::mutex mutex;
  std::condition_variable work, done;
  bool closing = false;
  bool asked = false;  // a request is not answered yet
  Batch batch;
  std::size_t first = 0, count = 0, next = 0;
  int reading = 0;
  std::map<std::size_t, Error> errors;  // by place

  std::vector<std::jthread> threads;  // last: use all of the above

  Impl(const Dataset& source, int image_size, int thread_count)
      : dataset(source), transform{image_size, Augment::kOff}, wanted(thread_count) {}

  Status read(std::size_t place) {
    return with_enough_memory("test samples", kSmaller, [&] {
      const std::size_t index = first + place;
      return read_sample(dataset, Split::kTest, index, transform, key_of_test_sample(index), batch, place);
    });
  }

  Status make_room_for(std::size_t samples) {
    return with_enough_memory("test samples", kSmaller, [&]() -> Status {
      make_room(batch, dataset.info(), transform, samples);
      return {};
    });
  }

  void read_what_is_left(std::unique_lock<std::mutex>& lock) {
    while (next < count) {
      const std::size_t place = next++;
      ++reading;
      lock.unlock();
      const Status status = read(place);
      lock.lock();
      --reading;
      if (status) continue;
      errors.emplace(place, status.error());
      next = count;  // the batch cannot be used
    }
    if (reading == 0) done.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!closing) {
      read_what_is_left(lock);
      work.wait(lock, [&] { return closing || next < count; });
    }
  }
};

TestReader::TestReader(const Dataset& dataset, int image_size, int threads)
    : impl_(std::make_unique<Impl>(dataset, image_size, threads)) {}

TestReader::~TestReader() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
  }
  impl_->work.notify_all();
}

Result<Batch> TestReader::read(std::size_t first, std::size_t count, std::chrono::milliseconds limit) {
  Impl& reader = *impl_;
  REKINDLE_CHECK(add_threads(reader.threads, reader.wanted, "test samples", "fewer threads",
                             [&reader] { reader.run(); }));
  const auto until = std::chrono::steady_clock::now() + limit;
  const auto late = [&] { return not_read_yet(str("test samples ", first, " to ", first + count - 1)); };
  std::unique_lock lock(reader.mutex);
  if (!reader.asked || reader.first != first || reader.count != count) {
    reader.next = reader.count;  // of an older request, nothing more is read
    reader.asked = false;
    if (!reader.done.wait_until(lock, until, [&] { return reader.reading == 0; })) return late();
    REKINDLE_CHECK(reader.make_room_for(count));
    for (std::size_t i = 0; i < count; ++i) reader.batch.samples[i] = first + i;
    reader.errors.clear();
    reader.first = first;
    reader.next = 0;
    reader.count = count;
    reader.asked = true;
    reader.work.notify_all();
  }
  if (reader.threads.empty()) reader.read_what_is_left(lock);
  const bool read =
      reader.done.wait_until(lock, until, [&] { return reader.next >= reader.count && reader.reading == 0; });
  if (!read) return late();
  reader.asked = false;
  if (!reader.errors.empty()) return forward_error(reader.errors.begin()->second);
  return std::exchange(reader.batch, {});
}

}  // namespace rekindle::data
