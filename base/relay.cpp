#include "base/relay.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "base/pipe.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

constexpr std::chrono::milliseconds kPatience{1000};
// A user may have 64 MiB in pipes (/proc/sys/fs/pipe-user-pages-soft), with many jobs on a node.
constexpr int kPipeBytes = 256 << 10;

// So many bytes are written into a pipe completely or not at all (pipe(7), PIPE_BUF).
using Piece = std::array<char, PIPE_BUF>;

void write_all_or_drop(const Fd& to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(to.get(), bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {  // whoever started the run may have made its output non-blocking
      pollfd room{to.get(), POLLOUT, 0};
      std::ignore = ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

// The only thread that waits for the file.
void write_out(const Fd& from, const Fd& to) {
  std::array<char, 65536> bytes;
  for (;;) {
    const ssize_t count = ::read(from.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    write_all_or_drop(to, {bytes.data(), static_cast<std::size_t>(count)});
  }
}

class DroppingWriter {
 public:
  explicit DroppingWriter(const Fd& pipe) : pipe_(pipe) {}

  // At most PIPE_BUF bytes.
  void write(std::string_view bytes) {
    if (!has_room(dropped_ == 0) || !tell_dropped() || !try_write(bytes)) dropped_ += bytes.size();
  }
  // What was dropped last would otherwise never be told.
  void finish() {
    if (has_room(true)) std::ignore = tell_dropped();
  }

 private:
  bool has_room(bool waits) const {
    pollfd room{pipe_.get(), POLLOUT, 0};
    return ::poll(&room, 1, waits ? static_cast<int>(kPatience.count()) : 0) > 0;
  }
  bool try_write(std::string_view bytes) const {
    return ::write(pipe_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  }
  bool tell_dropped() {
    if (dropped_ == 0) return true;
    if (!try_write(str("\nrekindle: ", dropped_,
                       " bytes of this output were dropped, because the storage that it goes to did not "
                       "answer\n")))
      return false;
    dropped_ = 0;
    return true;
  }

  const Fd& pipe_;
  std::uint64_t dropped_ = 0;
};

enum class Left { kMore, kNothing, kClosed };

Left copy_piece(const Fd& from, DroppingWriter& to) {
  Piece bytes;
  const ssize_t count = ::read(from.get(), bytes.data(), bytes.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Left::kNothing;
  if (count <= 0) return Left::kClosed;
  to.write({bytes.data(), static_cast<std::size_t>(count)});
  return Left::kMore;
}

void copy_until_end(const Fd& from, Fd end, DroppingWriter& to) {
  for (;;) {
    std::array<pollfd, 2> waits{{{from.get(), POLLIN, 0}, {end.get(), POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if ((waits[1].revents & POLLIN) != 0) {
      // Processes that print without a pause must not keep this one alive.
      for (int piece = 0; piece < kPipeBytes / PIPE_BUF; ++piece)
        if (copy_piece(from, to) != Left::kMore) return;
      return;
    }
    if (waits[1].revents != 0) end.reset();
    if (waits[0].revents != 0 && copy_piece(from, to) == Left::kClosed) return;
  }
}

}  // namespace

void relay(Fd from, const Fd& to, Fd end) {
  auto pipe = make_pipe();
  if (!pipe) return write_out(from, to);  // no descriptors are left
  const Fd out = std::move(pipe->read);
  Fd in = std::move(pipe->write);
  std::ignore = ::fcntl(in.get(), F_SETPIPE_SZ, kPipeBytes);  // if it is refused, the pipe is smaller
  std::thread writer;
  try {
    writer = std::thread([&] { write_out(out, to); });
  } catch (const std::system_error&) {  // no thread is left
    return write_out(from, to);
  }
  for (const Fd* each : {&from, &in}) std::ignore = ::fcntl(each->get(), F_SETFL, O_NONBLOCK);
  DroppingWriter dropping(in);
  copy_until_end(from, std::move(end), dropping);
  dropping.finish();
  in.reset();
  writer.join();
}

}  // namespace rekindle
