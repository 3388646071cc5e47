// Writes the coordinator's records in a thread of its own, in order: storage may be slow, and the coordinator
// must not wait for it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "base/background.hpp"
#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

class RecordWriter {
 public:
  RecordWriter(const run::Layout& layout, std::uint64_t term) : layout_(layout), term_(term) {}

  const run::Layout& layout() const { return layout_; }
  std::uint64_t term() const { return term_; }

  void add(std::function<void()> work) { later_.add(std::move(work)); }
  // Waits until all writes are on storage or have failed.
  void flush() { later_.flush(); }
  // The warning for the person who started the run, once; "" if there is none. The log may be in the same
  // trouble as the records.
  std::string take_warning();

  // ---- in the thread ----

  bool superseded() const;           // a newer coordinator writes the records of the run
  bool no_longer_in_charge() const;  // the same, or the term cannot be read: delete nothing
  void warn_once(const Status& status);

 private:
  const run::Layout layout_;
  const std::uint64_t term_;
  bool warned_ = false;  // only used in later_'s thread
  std::mutex mutex_;
  std::string warning_;  // not taken yet; guarded by mutex_
  Background later_;     // last: uses all of the above
};

}  // namespace rekindle::actors
