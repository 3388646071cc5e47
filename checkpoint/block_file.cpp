#include "checkpoint/block_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <span>
#include <utility>

#include "base/files.hpp"
#include "checkpoint/direct.hpp"

namespace rekindle::checkpoint {
namespace {

// Whoever wants to change what is lent waits for a write of it, so storage that takes longer gets copies.
constexpr std::chrono::milliseconds kLongWrite{100};

// Written past the page cache for as long as that works: the data is used no more, and copying it there costs
// the processor what training needs.
class DirectFile {
 public:
  static Result<DirectFile> create(const FilePath& path) {
    // Not with O_DIRECT at once: where storage refuses that, the file is made all the same.
    REKINDLE_TRY(Fd fd, open_file(path, O_WRONLY | O_CREAT | O_EXCL));
    const bool direct = set_direct(fd.get(), true);
    return DirectFile(std::move(fd), path, direct);
  }

  Status write(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (direct_ && bytes.size() % kSector != 0) REKINDLE_CHECK(use_page_cache());  // the end of the file
    Status status = write_all(fd_.get(), path_, offset, bytes);
    if (status || !direct_) return status;
    REKINDLE_CHECK(use_page_cache());  // open() took O_DIRECT; perhaps the storage below does not
    return write_all(fd_.get(), path_, offset, bytes);
  }

  Status finish() {
    REKINDLE_CHECK(sync_file(fd_.get(), path_));
    return fd_.close(path_);
  }

 private:
  DirectFile(Fd fd, FilePath path, bool direct)
      : fd_(std::move(fd)), path_(std::move(path)), direct_(direct) {}

  Status use_page_cache() {
    direct_ = false;
    if (!set_direct(fd_.get(), false))
      return forward_error(errno_error("cannot turn O_DIRECT off for", path_));
    return {};
  }

  Fd fd_;
  FilePath path_;
  bool direct_;
};

Status write_open_file(DirectFile& file, ReadAhead& ahead) {
  for (std::uint64_t written = 0; written < ahead.bytes();) {
    REKINDLE_TRY(Block block, ahead.next());
    const auto began = std::chrono::steady_clock::now();
    REKINDLE_CHECK(file.write(block.begin, block.bytes));
    if (std::chrono::steady_clock::now() - began > kLongWrite) ahead.lend_no_more();
    written += block.bytes.size();
    ahead.recycle(std::move(block));
  }
  return file.finish();
}

}  // namespace

Status write_blocks(const FilePath& path, ReadAhead& ahead) {
  REKINDLE_TRY(DirectFile file, DirectFile::create(path));
  Status written = write_open_file(file, ahead);
  if (!written) std::ignore = remove_file(path);
  return written;
}

}  // namespace rekindle::checkpoint
