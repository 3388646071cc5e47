// A folder with TensorBoard's event files.
//
// TensorBoard reads the files in the order of their names, and goes to the next file when one is read to its
// end, also if its last record is torn. So each process writes a file of its own, behind all that are there,
// and only appends to it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle::board {

class EventFiles {
 public:
  // `writer` is part of the file's name: the host and the pid. `seconds`: the time now, since 1970.
  EventFiles(FilePath folder, std::string writer, std::uint64_t seconds)
      : folder_(std::move(folder)), writer_(std::move(writer)), seconds_(seconds) {}

  // Visits the events that are in the files, in TensorBoard's order. An error if something cannot be read.
  Status read(const std::function<void(std::string_view)>& visit) const;

  void add(std::string_view event);
  std::size_t waiting_bytes() const { return waiting_.size(); }
  // Writes what waits. The first call makes the file. After an error the next call tries the same again.
  Status write();

 private:
  Status make_file();

  const FilePath folder_;
  const std::string writer_;
  const std::uint64_t seconds_;
  FilePath path_;  // of the file of this process
  Fd file_;
  std::uint64_t size_ = 0;  // what of `file_` has been written completely
  std::string waiting_;
};

}  // namespace rekindle::board
