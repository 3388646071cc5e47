#include "data/loader.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/random.hpp"
#include "base/text.hpp"
#include "data/enough_memory.hpp"
#include "data/read_sample.hpp"
#include "data/threads.hpp"

namespace rekindle::data {

// A course is the endless sequence of micro-batches of one start(), numbered from 0. Threads take the numbers
// in order. Only micro-batches in the window [handed, handed + ahead) are prepared or kept.
struct Loader::Impl {
  const Dataset& dataset;
  const LoaderConfig config;
  const SampleOrder order;

  std::mutex mutex;
  std::condition_variable work, ready;
  bool closing = false;
  // Written under the mutex. A thread reads it without the mutex to check if its micro-batch is still needed.
  std::atomic<std::uint64_t> course = 0;
  std::uint64_t first_step = 0;
  std::vector<int> micro_batches;  // of each step, in the requested order; empty: paused
  std::vector<int> first;          // of the first step
  std::uint64_t ahead = 0;
  std::uint64_t taken = 0, handed = 0;
  std::map<std::uint64_t, Result<Batch>> made;
  std::vector<Batch> spare;  // buffers to reuse, because new buffers cost page faults

  Status begun;                       // whether all threads could be made
  std::vector<std::jthread> threads;  // last: use all of the above

  Impl(const Dataset& source, const LoaderConfig& wanted)
      : dataset(source), config(wanted), order(wanted.seed, source.info().train_count) {}

  void begin_course() {  // under the mutex
    ++course;
    taken = handed = 0;
    for (auto& [number, batch] : made) {
      if (batch) spare.push_back(std::move(*batch));
    }
    made.clear();
  }

  void name(Batch& batch, std::uint64_t number) const {  // under the mutex
    if (number < first.size()) {
      batch.step = first_step;
      batch.micro_batch = first[number];
    } else {
      number -= first.size();
      batch.step = first_step + 1 + number / micro_batches.size();
      batch.micro_batch = micro_batches[number % micro_batches.size()];
    }
  }

  Batch take_spare() {  // under the mutex
    if (spare.empty()) return {};
    Batch batch = std::move(spare.back());
    spare.pop_back();
    return batch;
  }

  Status fill(Batch& batch, std::uint64_t my_course) const {
    return with_enough_memory("training samples", "fewer --loader-threads",
                              [&] { return fill_samples(batch, my_course); });
  }

  // Stops before the end if another course begins.
  Status fill_samples(Batch& batch, std::uint64_t my_course) const {
    const auto b = static_cast<std::size_t>(config.samples);
    const auto micro_batch = static_cast<std::uint64_t>(batch.micro_batch);
    const std::uint64_t position =
        (batch.step * static_cast<std::uint64_t>(config.micro_batches) + micro_batch) * b;
    make_room(batch, dataset.info(), config.transform, b);
    for (std::size_t i = 0; i < b; ++i) {
      if (course.load(std::memory_order_relaxed) != my_course) return {};
      batch.samples[i] = order.sample_at(position + i);
      REKINDLE_CHECK(read_sample(dataset, Split::kTrain, batch.samples[i], config.transform,
                                 stream_key(config.seed, Draws::kAugment, {batch.step, micro_batch, i}),
                                 batch, i));
    }
    return {};
  }

  // Without threads: the caller fills its micro-batch itself.
  Result<Batch> fill_next(std::unique_lock<std::mutex>& lock) {
    if (micro_batches.empty()) return Batch{};
    const std::uint64_t my_course = course;
    Batch batch = take_spare();
    name(batch, handed++);
    lock.unlock();
    REKINDLE_CHECK(fill(batch, my_course));
    lock.lock();
    if (my_course != course) return Batch{};
    return batch;
  }

  bool may_take() const { return micro_batches.empty() || made.contains(handed); }

  Result<Batch> take(std::unique_lock<std::mutex>& lock) {  // may_take()
    if (micro_batches.empty()) return Batch{};
    Result<Batch> batch = std::move(made.extract(handed++).mapped());
    lock.unlock();
    work.notify_one();
    return batch;
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      work.wait(lock, [&] { return closing || (!micro_batches.empty() && taken < handed + ahead); });
      if (closing) return;
      const std::uint64_t my_course = course, number = taken++;
      Batch batch = take_spare();
      name(batch, number);
      lock.unlock();
      const Status filled = fill(batch, my_course);
      lock.lock();
      if (my_course != course) {
        spare.push_back(std::move(batch));
        continue;
      }
      if (filled)
        made.emplace(number, std::move(batch));
      else
        made.emplace(number, forward_error(filled.error()));
      ready.notify_all();
    }
  }
};

Loader::Loader(const Dataset& dataset, const LoaderConfig& config)
    : impl_(std::make_unique<Impl>(dataset, config)) {
  impl_->begun = add_threads(impl_->threads, config.threads, "training samples", "fewer --loader-threads",
                             [impl = impl_.get()] { impl->run(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
    impl_->micro_batches.clear();
    impl_->begin_course();
  }
  impl_->work.notify_all();
  impl_->ready.notify_all();
}

void Loader::start(std::uint64_t step, std::vector<int> micro_batches, std::vector<int> first) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->first_step = step;
    impl_->micro_batches = std::move(micro_batches);
    impl_->first = std::move(first);
    // Each thread has one to prepare.
    impl_->ahead = impl_->config.ahead > 0
                       ? static_cast<std::uint64_t>(impl_->config.ahead)
                       : std::max({impl_->micro_batches.size(), impl_->threads.size(), std::size_t{2}});
    impl_->begin_course();
  }
  impl_->work.notify_all();
  impl_->ready.notify_all();
}

Result<Batch> Loader::next(std::chrono::milliseconds limit) {
  REKINDLE_CHECK(impl_->begun);
  std::unique_lock lock(impl_->mutex);
  if (impl_->threads.empty()) return impl_->fill_next(lock);
  if (impl_->ready.wait_for(lock, limit, [&] { return impl_->may_take(); })) return impl_->take(lock);
  Batch late;
  impl_->name(late, impl_->handed);
  return not_read_yet(str("the samples of micro-batch ", late.micro_batch, " of step ", late.step));
}

std::optional<Batch> Loader::next_if_ready() {
  std::unique_lock lock(impl_->mutex);
  const auto found = impl_->made.find(impl_->handed);
  if (impl_->micro_batches.empty() || found == impl_->made.end() || !found->second) return std::nullopt;
  ++impl_->handed;
  std::optional<Batch> batch = std::move(*impl_->made.extract(found).mapped());
  lock.unlock();
  impl_->work.notify_one();
  return batch;
}

void Loader::recycle(Batch batch) {
  const std::lock_guard lock(impl_->mutex);
  impl_->spare.push_back(std::move(batch));
}

void Loader::stop() { start(0, {}, {}); }

}  // namespace rekindle::data
