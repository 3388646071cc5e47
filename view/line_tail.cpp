#include "view/line_tail.hpp"

#include <algorithm>
#include <span>

#include "base/input_file.hpp"
#include "run/line_reader.hpp"

namespace rekindle::view {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 22;

}  // namespace

Status LineTail::read(const Visit& visit) {
  if (!path_exists(file_)) return {};
  REKINDLE_TRY(const InputFile file, open_input(file_));
  REKINDLE_CHECK(check_holes(file));
  const bool anew = file.size < offset_;
  std::uint64_t offset = anew ? 0 : offset_;
  std::string text;
  while (offset + text.size() < file.size) {
    const std::uint64_t begin = offset + text.size();
    const std::size_t before = text.size();
    text.resize(before + std::min(kPiece, file.size - begin));
    REKINDLE_CHECK(file.read(begin, std::as_writable_bytes(std::span(text).subspan(before))));
    std::size_t done = 0;
    for (std::size_t end; (end = text.find('\n', done)) != std::string::npos; done = end + 1)
      visit(text.substr(done, end - done), anew);
    text.erase(0, done);
    offset += done;
    if (text.size() > run::kMostLineBytes) {  // this is no line
      offset += text.size();
      text.clear();
    }
  }
  offset_ = offset;
  return {};
}

Status LineTail::skip_to_last(std::uint64_t bytes) {
  if (!path_exists(file_)) return {};
  REKINDLE_TRY(const InputFile file, open_input(file_));
  if (file.size <= bytes) return {};
  const std::uint64_t begin = file.size - bytes;
  std::string text(bytes, ' ');
  REKINDLE_CHECK(file.read(begin, std::as_writable_bytes(std::span(text))));
  const std::size_t end = text.find('\n');
  offset_ = end == std::string::npos ? file.size : begin + end + 1;
  return {};
}

}  // namespace rekindle::view
