// A zip file of uncompressed entries whose data start at multiples of 64 bytes, so that readers can mmap
// them. https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT. Internal to checkpoint/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include "base/file_path.hpp"

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle::checkpoint {

class StoredZip {
 public:
  // Sizes and offsets of at least `zip64_from` use the zip64 form; a test sets a lower limit.
  static Result<StoredZip> create(const FilePath& path,
                                  std::uint64_t zip64_from = std::numeric_limits<std::uint32_t>::max());
  Status add(const std::string& name, std::span<const std::byte> bytes);
  // An entry of `bytes` bytes. `each` passes the bytes to its argument, in pieces. It is called twice and
  // must pass the same bytes both times.
  using Visit = std::function<Status(std::span<const std::byte>)>;
  Status add(const std::string& name, std::uint64_t bytes, const std::function<Status(const Visit&)>& each);
  // Writes the directory; fsyncs and closes.
  Status finish();

 private:
  struct Entry {
    std::string name;
    std::uint64_t bytes = 0, offset = 0;
    std::uint32_t crc = 0;
  };

  StoredZip(Fd fd, FilePath path, std::uint64_t zip64_from)
      : fd_(std::move(fd)), path_(std::move(path)), zip64_from_(zip64_from) {}
  Status append(std::span<const std::byte> bytes);
  Status append(const std::string& text);
  bool large(std::uint64_t value) const { return value >= zip64_from_; }
  std::uint64_t narrow(std::uint64_t value) const;
  // The part that both records of an entry share: from the flags to the size of `extra`.
  std::string description(const Entry& entry, const std::string& extra) const;
  std::string local_header(const Entry& entry) const;
  std::string directory_entry(const Entry& entry) const;
  std::string end_of_directory(std::uint64_t begin, std::uint64_t bytes) const;

  Fd fd_;
  FilePath path_;
  std::uint64_t zip64_from_, end_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace rekindle::checkpoint
