// A file of JSON objects, one a line, that is appended to and survives a full disk.
#pragma once

#include <cstddef>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include "base/file_path.hpp"

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle::run {

// One writer at a time. A line is never appended to an unfinished one: where a crash, a full disk or a cut
// left the file without a line end, the last line is completed if it is whole, and removed otherwise.
class LineFile {
 public:
  explicit LineFile(FilePath path) : path_(std::move(path)) {}

  // Writes the line, after those that could not be written before. On an error the lines are kept for the
  // next call, kMostWaiting of them; then the oldest are dropped.
  Status append(const nlohmann::json& line);
  // The same without a new line.
  Status write_waiting();
  // Lines in memory that are not in the file.
  const std::deque<std::string>& waiting() const { return waiting_; }
  template <class Unwanted>
  void drop_waiting_if(const Unwanted& unwanted) {
    std::erase_if(waiting_, unwanted);
  }

  // Completes or removes an unfinished last line, and opens the file, which is made if it is not there.
  Status mend();
  // Another process, or a change of the file, may have left anything: it is opened and mended again.
  void close() { file_.reset(); }

  static constexpr std::size_t kMostWaiting = 100000;  // some 30 MB

 private:
  FilePath path_;
  Fd file_;  // open: its last line is whole
  std::deque<std::string> waiting_;
};

}  // namespace rekindle::run
