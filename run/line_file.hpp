// An append-only file with one JSON object per line. A full disk does not damage the file.
#pragma once

#include <cstddef>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include "base/file_path.hpp"

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle::run {

// One writer at a time. A line is never appended to an unfinished one: if a crash, a full disk or a
// truncation left the file without a final line end, the last line gets its line end if the line is complete
// JSON, and is removed otherwise.
class LineFile {
 public:
  explicit LineFile(FilePath path) : path_(std::move(path)) {}

  // Writes the pending lines, then this line. On an error the lines stay pending for the next call. Above
  // kMostPending lines, the oldest are dropped.
  Status append(const nlohmann::json& line);
  // Writes the pending lines only.
  Status write_pending();
  // Lines that are in memory, but not in the file.
  const std::deque<std::string>& pending() const { return pending_; }
  template <class Unwanted>
  void drop_pending_if(const Unwanted& unwanted) {
    std::erase_if(pending_, unwanted);
  }

  // Opens or creates the file, and completes or removes an unfinished last line.
  Status mend();
  // For use when the file may have been replaced: the next write opens and mends the file again.
  void close() { file_.reset(); }

  static constexpr std::size_t kMostPending = 100000;  // about 30 MB

 private:
  FilePath path_;
  Fd file_;  // if open, the last line is complete
  std::deque<std::string> pending_;
};

}  // namespace rekindle::run
