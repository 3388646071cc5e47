#include "exchange/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/text.hpp"

namespace rekindle::exchange {
namespace {

// A process that loads samples for a script would keep the memory of generations that have ended.
void keep_from_children(void* data, std::size_t bytes) {
  std::ignore = ::madvise(data, bytes, MADV_DONTFORK);
}

}  // namespace

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Result<Segment> make_segment(const char* name, std::size_t bytes) {
  const auto failed = [&](std::string_view what) {
    return fail(str("shared memory '", name, "' of ", bytes, " bytes: ", what, ": ", std::strerror(errno)),
                "free memory on this host");
  };
  Segment segment;
  segment.fd = Fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.fd) return failed("memfd_create");
  if (::ftruncate(segment.fd.get(), static_cast<off_t>(bytes)) != 0) return failed("ftruncate");
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd.get(), 0);
  if (data == MAP_FAILED) return failed("mmap");
  segment.memory = Mapping(static_cast<std::byte*>(data), bytes);
  keep_from_children(data, bytes);
  // EINVAL: the kernel is older than 5.14. The pages are then allocated at first use.
  if (::madvise(data, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) return failed("populate");
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (::fcntl(segment.fd.get(), F_ADD_SEALS, kSeals | F_SEAL_FUTURE_WRITE) == 0) return segment;
  // EINVAL: the kernel is older than 5.1. Processes of the same user could then write into the segment.
  if (errno != EINVAL || ::fcntl(segment.fd.get(), F_ADD_SEALS, kSeals) != 0) return failed("seal");
  return segment;
}

Result<Mapping> map_peer_segment(pid_t pid, int fd, std::size_t bytes) {
  const std::string path = str("/proc/", pid, "/fd/", fd);
  // O_NONBLOCK: the pid may now be another process, and the descriptor a FIFO, whose open would block.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return forward_error(errno_error("cannot open", path));
  struct stat status {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(file.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) < bytes)
    return fail(str(path, " is not an exchange's memory of ", bytes, " bytes"));
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return forward_error(errno_error("cannot map", path));
  keep_from_children(data, bytes);
  return Mapping(static_cast<std::byte*>(data), bytes);
}

}  // namespace rekindle::exchange
