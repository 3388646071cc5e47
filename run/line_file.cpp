#include "run/line_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/append_file.hpp"
#include "base/bytes.hpp"
#include "base/json_reader.hpp"
#include "base/text.hpp"
#include "run/line_reader.hpp"

namespace rekindle::run {
namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 20;  // bytes
// The most bytes that are searched for the end of the last complete line.
constexpr std::size_t kMostToSearch = std::size_t{1} << 30;

// The offset of an unfinished last line; nullopt: the file ends with a line end, or is empty.
Result<std::optional<std::size_t>> unfinished_from(int fd, const FilePath& path, std::size_t size) {
  constexpr std::size_t kPiece = 65536;
  for (std::size_t end = size; end > 0;) {
    if (size - end >= kMostToSearch)
      return fail(ExitCode::kConfig,
                  str(path.string(), " has no line end in its last ", format_bytes(kMostToSearch)),
                  "move it away");
    const std::size_t begin = end - std::min(end, kPiece);
    std::string piece(end - begin, '\0');
    REKINDLE_CHECK(read_into(fd, path, begin, std::as_writable_bytes(std::span(piece))));
    if (const std::size_t at = piece.rfind('\n'); at != std::string::npos) {
      const std::size_t from = begin + at + 1;
      return from == size ? std::nullopt : std::optional(from);
    }
    end = begin;
  }
  return size == 0 ? std::nullopt : std::optional(std::size_t{0});
}

}  // namespace

Status LineFile::mend() {
  REKINDLE_TRY(Fd file, open_to_append(path_, O_RDWR));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return forward_error(errno_error("cannot stat", path_));
  if (!S_ISREG(info.st_mode))
    return fail(str(path_.string(), " is not a file"));  // a write to a full pipe would block
  const auto size = static_cast<std::size_t>(info.st_size);
  REKINDLE_TRY(const auto from, unfinished_from(file.get(), path_, size));
  if (from) {
    // A run writes no longer line.
    std::string last(size - *from <= kMostLineBytes ? size - *from : 0, '\0');
    REKINDLE_CHECK(read_into(file.get(), path_, *from, std::as_writable_bytes(std::span(last))));
    const bool complete = parse_object(last, {}, path_.string()).has_value();
    const bool ended = complete && ::write(file.get(), "\n", 1) == 1;
    if (!ended && ::ftruncate(file.get(), static_cast<off_t>(*from)) != 0)
      return forward_error(errno_error("cannot shorten", path_));
    if (complete && !ended) pending_.push_front(last + "\n");
  }
  file_ = std::move(file);
  return {};
}

Status LineFile::append(const nlohmann::json& line) {
  pending_.push_back(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  Status written = write_pending();
  while (pending_.size() > kMostPending) pending_.pop_front();
  return written;
}

Status LineFile::write_pending() {
  if (!file_ && !pending_.empty()) REKINDLE_CHECK(mend());
  while (!pending_.empty()) {
    std::string text;
    std::size_t lines = 0;
    for (const std::string& line : pending_) {
      if (lines > 0 && text.size() + line.size() > kMostAtOnce) break;
      text += line;
      ++lines;
    }
    // One write, so that a line is never interleaved; O_APPEND places it at the end.
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
    const Error error = errno_error("cannot append to", path_);
    auto left = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    for (; !pending_.empty() && pending_.front().size() <= left; pending_.pop_front())
      left -= pending_.front().size();
    if (written == static_cast<ssize_t>(text.size())) continue;
    file_.reset();
    std::ignore = mend();  // removes a partly written line; if mend() fails, the next write tries again
    if (written < 0) return forward_error(error);
    return fail(
        str("cannot append to ", path_.string(), ": ", written, " of ", text.size(), " bytes were written"));
  }
  return {};
}

}  // namespace rekindle::run
