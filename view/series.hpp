// A number over the steps of a run, in limited memory and without losing a spike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rekindle::view {

// Values of neighbouring steps.
struct Bucket {
  std::uint64_t last = 0;   // the highest step that has a value
  std::uint64_t count = 0;  // of values, at least 1
  double min = 0, mean = 0, max = 0;

  bool operator==(const Bucket&) const = default;
};

struct StepRange {
  std::uint64_t from = 0, to = UINT64_MAX;  // both included
  bool has(std::uint64_t step) const { return from <= step && step <= to; }
  bool operator==(const StepRange&) const = default;
};

// All buckets have the same width, a power of two: of width 4 are the buckets of the steps 1 to 4, 5 to 8,
// ... (and step 0 is in the first one). The width is 1 until there are more than `most` buckets, and then
// doubles as often as necessary. Steps may come in any order.
class Series {
 public:
  explicit Series(std::size_t most) : most_(most) {}

  // A value that is finite. The second value of a step replaces the first one, if no other step is in its
  // bucket yet; otherwise both count.
  void add(std::uint64_t step, double value) { add({step, 1, value, value, value}); }
  // A bucket of another series, as a whole where its last step belongs.
  void add(const Bucket& bucket);

  // By step; at most `most`, none empty.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  std::uint64_t width() const { return std::uint64_t{1} << shift_; }
  // The steps that belong to a bucket of this series.
  StepRange steps_of(const Bucket& bucket) const;
  // Whether each bucket is one value.
  bool exact() const;

 private:
  std::uint64_t place_of(std::uint64_t step) const { return (step - (step > 0 ? 1 : 0)) >> shift_; }
  void double_width();

  std::size_t most_;
  unsigned shift_ = 0;  // at most 63
  std::vector<Bucket> buckets_;
};

}  // namespace rekindle::view
