#include "run/line_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/json_reader.hpp"
#include "base/text.hpp"
#include "run/line_reader.hpp"

namespace rekindle::run {
namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 20;  // bytes

// Where the last line begins that has no end; nullopt: the file ends with a line end, or is empty.
Result<std::optional<std::size_t>> unfinished_from(int fd, const FilePath& path, std::size_t size) {
  constexpr std::size_t kPiece = 65536;
  for (std::size_t end = size; end > 0;) {
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
  REKINDLE_TRY(Fd file, open_file(path_, O_RDWR | O_CREAT | O_APPEND));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return forward_error(errno_error("cannot stat", path_));
  if (!S_ISREG(info.st_mode)) return fail(str(path_.string(), " is not a file"));  // a full pipe blocks
  const auto size = static_cast<std::size_t>(info.st_size);
  REKINDLE_TRY(const auto from, unfinished_from(file.get(), path_, size));
  if (from) {
    // What is longer is no line of a run.
    std::string last(size - *from <= kMostLineBytes ? size - *from : 0, '\0');
    REKINDLE_CHECK(read_into(file.get(), path_, *from, std::as_writable_bytes(std::span(last))));
    const bool whole = parse_object(last, {}, path_.string()).has_value();
    const bool completed = whole && ::write(file.get(), "\n", 1) == 1;
    if (!completed && ::ftruncate(file.get(), static_cast<off_t>(*from)) != 0)
      return forward_error(errno_error("cannot shorten", path_));
    if (whole && !completed) waiting_.push_front(last + "\n");
  }
  file_ = std::move(file);
  return {};
}

Status LineFile::append(const nlohmann::json& line) {
  waiting_.push_back(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  Status written = write_waiting();
  while (waiting_.size() > kMostWaiting) waiting_.pop_front();
  return written;
}

Status LineFile::write_waiting() {
  if (!file_ && !waiting_.empty()) REKINDLE_CHECK(mend());
  while (!waiting_.empty()) {
    std::string text;
    std::size_t lines = 0;
    for (const std::string& line : waiting_) {
      if (lines > 0 && text.size() + line.size() > kMostAtOnce) break;
      text += line;
      ++lines;
    }
    // One write, so that a line is never interleaved; O_APPEND places it at the end.
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
    const Error error = errno_error("cannot append to", path_);
    auto left = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    for (; !waiting_.empty() && waiting_.front().size() <= left; waiting_.pop_front())
      left -= waiting_.front().size();
    if (written == static_cast<ssize_t>(text.size())) continue;
    file_.reset();
    std::ignore = mend();  // what was written of a line; if that fails, before the next write
    if (written < 0) return forward_error(error);
    return fail(
        str("cannot append to ", path_.string(), ": ", written, " of ", text.size(), " bytes were written"));
  }
  return {};
}

}  // namespace rekindle::run
