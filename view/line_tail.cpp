#include "view/line_tail.hpp"

#include <algorithm>
#include <span>

#include "base/input_file.hpp"
#include "run/line_reader.hpp"

namespace rekindle::view {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 22;
constexpr std::size_t kCompared = 256;  // bytes: most of a line of metrics.jsonl, which no other line equals

Result<std::string> read_text(const InputFile& file, std::uint64_t begin, std::uint64_t end) {
  std::string text(end - begin, '\0');
  REKINDLE_CHECK(file.read(begin, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

// `text` ends at `offset`.
void LineTail::advance(std::uint64_t offset, const std::string& text) {
  offset_ = offset;
  before_ = text.size() >= kCompared ? text.substr(text.size() - kCompared) : before_ + text;
  if (before_.size() > kCompared) before_.erase(0, before_.size() - kCompared);
}

Result<LineTail::Slice> LineTail::read_slice(std::uint64_t most_bytes) {
  Slice slice;
  slice.offset = offset_;
  if (!path_exists(file_)) return slice;
  REKINDLE_TRY(const InputFile file, open_input(file_));
  REKINDLE_CHECK(check_holes(file));
  // Larger than a line, so that each call makes progress.
  const std::uint64_t most = std::max<std::uint64_t>(most_bytes, run::kMostLineBytes + 1);
  slice.anew = file.size < offset_;
  if (!slice.anew) {
    // One read has the bytes that are compared, too: the file may change at any time.
    const std::uint64_t end = offset_ + std::min(most, file.size - offset_);
    REKINDLE_TRY(slice.text, read_text(file, offset_ - before_.size(), end));
    slice.anew = !slice.text.starts_with(before_);
    slice.text.erase(0, before_.size());
  }
  if (slice.anew) {
    slice.offset = 0;
    REKINDLE_TRY(slice.text, read_text(file, 0, std::min(most, file.size)));
    before_.clear();
  }
  slice.more = slice.offset + slice.text.size() < file.size;
  const std::size_t lines = slice.text.rfind('\n') + 1;
  if (lines == 0 && slice.text.size() > run::kMostLineBytes) {  // this is no line
    advance(slice.offset + slice.text.size(), slice.text);
    slice.text.clear();
    return slice;
  }
  slice.text.resize(lines);
  advance(slice.offset + lines, slice.text);
  return slice;
}

Status LineTail::read(const Visit& visit) {
  const LineTail before = *this;
  bool anew = false;
  for (bool more = true; more;) {
    auto slice = read_slice(kPiece);
    if (!slice) {
      *this = before;
      return forward_error(std::move(slice.error()));
    }
    anew = anew || slice->anew;
    more = slice->more;
    std::size_t done = 0;
    for (std::size_t end; (end = slice->text.find('\n', done)) != std::string::npos; done = end + 1)
      visit(slice->text.substr(done, end - done), anew);
  }
  return {};
}

Status LineTail::skip_to_last(std::uint64_t bytes) {
  if (!path_exists(file_)) return {};
  REKINDLE_TRY(const InputFile file, open_input(file_));
  if (file.size <= bytes) return {};
  REKINDLE_TRY(std::string text, read_text(file, file.size - bytes, file.size));
  const std::size_t end = text.find('\n');
  if (end != std::string::npos) text.resize(end + 1);
  before_.clear();
  advance(file.size - bytes + text.size(), text);
  return {};
}

}  // namespace rekindle::view
