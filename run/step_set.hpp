// A set of steps, stored as ranges, with a text form.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace rekindle::run {

class StepSet {
 public:
  void insert(std::uint64_t first, std::uint64_t last);  // nothing if last < first
  void erase(std::uint64_t step);
  void erase_after(std::uint64_t step);
  bool empty() const { return ranges_.empty(); }
  void clear() { ranges_.clear(); }
  // "step 4", "steps 4 to 7, 9"; if there are many ranges, only the first ones.
  std::string text() const;

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // first to last; not adjacent
};

}  // namespace rekindle::run
