#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/random.hpp"
#include "data/loader.hpp"

namespace rekindle::data {

struct SampleOrder::Cache {
  struct Epoch {
    std::uint64_t number;
    std::vector<std::uint32_t> samples;
  };
  // A batch may include samples of two epochs. Threads read ahead by a few batches, so that their positions
  // are in two epochs, too, unless an epoch is so small that its permutation is made in no time.
  static constexpr std::size_t kKept = 2;

  std::uint64_t seed;
  std::size_t count;
  std::mutex mutex;
  std::vector<Epoch> epochs;  // the most recently used first

  Cache(std::uint64_t run_seed, std::size_t samples) : seed(run_seed), count(samples) {}
};

namespace {

// The Fisher-Yates shuffle in Durstenfeld's form (Algorithm 235, CACM 1964).
std::vector<std::uint32_t> permutation(std::uint64_t seed, std::uint64_t epoch, std::size_t count) {
  std::vector<std::uint32_t> samples(count);
  std::iota(samples.begin(), samples.end(), 0U);
  Rng rng(stream_key(seed, Draws::kOrder, {epoch}));
  for (std::size_t i = count; i > 1; --i) std::swap(samples[i - 1], samples[rng.below(i)]);
  return samples;
}

}  // namespace

SampleOrder::SampleOrder(std::uint64_t seed, std::size_t count)
    : cache_(std::make_shared<Cache>(seed, count)) {}

std::size_t SampleOrder::sample_at(std::uint64_t position) const {
  const std::uint64_t number = position / cache_->count;
  const std::lock_guard lock(cache_->mutex);
  auto& epochs = cache_->epochs;
  auto found =
      std::find_if(epochs.begin(), epochs.end(), [&](const Cache::Epoch& e) { return e.number == number; });
  if (found == epochs.end()) {
    if (epochs.size() == Cache::kKept) epochs.pop_back();
    epochs.push_back({number, permutation(cache_->seed, number, cache_->count)});
    found = epochs.end() - 1;
  }
  std::rotate(epochs.begin(), found, found + 1);
  return epochs.front().samples[position % cache_->count];
}

}  // namespace rekindle::data
