#include "checkpoint/shard_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "checkpoint/direct.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {

Status ShardReader::read(const ShardEntry& shard, std::uint64_t offset, std::span<std::byte> out) {
  if (&shard != open_) REKINDLE_CHECK(open(shard));
  if (std::exchange(direct_, Direct::kNo) == Direct::kYes) set_direct(fd_.get(), false);
  return read_into(fd_.get(), path_, offset, out);
}

Status ShardReader::read_block(const ShardEntry& shard, std::uint64_t begin, std::span<std::byte> out) {
  if (&shard != open_) REKINDLE_CHECK(open(shard));
  if (direct_ != Direct::kNo && read_directly(begin, out)) return {};
  return read_into(fd_.get(), path_, begin, out);
}

Status ShardReader::open(const ShardEntry& shard) {
  open_ = nullptr;
  direct_ = Direct::kNotTried;
  path_ = path_of(shard);
  std::ignore = await_file(path_, patience_);
  const auto there = look_at(path_);
  if (there && *there && !S_ISREG((*there)->st_mode) && !S_ISLNK((*there)->st_mode))
    return damaged(path_, "it is not a regular file");
  auto opened = open_file(path_, O_RDONLY | O_NONBLOCK);  // nonblocking: the file might be a pipe
  if (!opened) return forward_error(missing(std::move(opened.error())));
  fd_ = std::move(*opened);
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return forward_error(errno_error("cannot stat", path_));
  if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) != shard.bytes) {
    return damaged(path_, str("it has ", info.st_size, " bytes, the manifest has ", shard.bytes));
  }
  ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  open_ = &shard;
  return {};
}

// False: read through the page cache from now on, because the storage may not support direct reads.
bool ShardReader::read_directly(std::uint64_t begin, std::span<std::byte> out) {
  if (direct_ == Direct::kYes || set_direct(fd_.get(), true)) {
    // Complete sectors: the file may end in the middle of its last sector.
    const std::size_t size = (out.size() + kSector - 1) / kSector * kSector;
    const ssize_t n = ::pread(fd_.get(), out.data(), size, static_cast<off_t>(begin));
    direct_ = Direct::kYes;
    if (n >= 0 && static_cast<std::size_t>(n) >= out.size()) return true;
    set_direct(fd_.get(), false);
  }
  direct_ = Direct::kNo;
  return false;
}

// A missing shard is damage only if the checkpoint's manifest exists; otherwise the storage is not available.
Error ShardReader::missing(Error error) const {
  if (error.kind == ErrorKind::kSystem || error.code == ExitCode::kConfig ||
      !path_exists(directory_ / kManifestFile))
    return error;
  return damaged_error(path_, "it does not exist");
}

}  // namespace rekindle::checkpoint
