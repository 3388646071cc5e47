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

// A caller that wants to change lent memory waits for a write of it, so slower storage gets copies instead.
constexpr std::chrono::milliseconds kLongWrite{100};

// Writes past the page cache as long as the storage allows this. The data is not read again, and a copy into
// the page cache would take processor time from training.
class DirectFile {
 public:
  static Result<DirectFile> create(const FilePath& path) {
    // O_DIRECT is set after the open, because storage that refuses O_DIRECT must still create the file.
    REKINDLE_TRY(Fd fd, open_file(path, O_WRONLY | O_CREAT | O_EXCL));
    const bool direct = set_direct(fd.get(), true);
    return DirectFile(std::move(fd), path, direct);
  }

  Status write(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (direct_ && bytes.size() % kSector != 0) REKINDLE_CHECK(use_page_cache());  // the end of the file
    Status status = write_all(fd_.get(), path_, offset, bytes);
    if (status || !direct_) return status;
    REKINDLE_CHECK(use_page_cache());  // open() took O_DIRECT, but the storage below may have refused it
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

Status write_open_file(DirectFile& file, ReadAhead& ahead, const std::function<void()>& block_written) {
  for (std::uint64_t written = 0; written < ahead.bytes();) {
    REKINDLE_TRY(Block block, ahead.next());
    const auto began = std::chrono::steady_clock::now();
    REKINDLE_CHECK(file.write(block.begin, block.bytes));
    if (std::chrono::steady_clock::now() - began > kLongWrite) ahead.lend_no_more();
    written += block.bytes.size();
    ahead.recycle(std::move(block));
    if (block_written) block_written();
  }
  return file.finish();
}

}  // namespace

Status write_blocks(const FilePath& path, ReadAhead& ahead, const std::function<void()>& block_written) {
  REKINDLE_TRY(DirectFile file, DirectFile::create(path));
  Status written = write_open_file(file, ahead, block_written);
  if (!written) std::ignore = remove_file(path);
  return written;
}

}  // namespace rekindle::checkpoint
