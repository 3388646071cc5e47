#include "view/line_tail.hpp"

#include <algorithm>
#include <span>

#include "base/input_file.hpp"
#include "run/line_reader.hpp"

namespace rekindle::view {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 22;

}  // namespace

Result<LineTail::Lines> LineTail::read() {
  Lines lines;
  if (!path_exists(file_)) return lines;
  REKINDLE_TRY(const InputFile file, open_input(file_));
  if (file.size < offset_) offset_ = 0, lines.anew = true;
  std::string text;
  while (offset_ + text.size() < file.size) {
    const std::uint64_t begin = offset_ + text.size();
    const std::size_t before = text.size();
    text.resize(before + std::min(kPiece, file.size - begin));
    REKINDLE_CHECK(file.read(begin, std::as_writable_bytes(std::span(text).subspan(before))));
    std::size_t done = 0;
    for (std::size_t end; (end = text.find('\n', done)) != std::string::npos; done = end + 1)
      lines.texts.push_back(text.substr(done, end - done));
    text.erase(0, done);
    offset_ += done;
    if (text.size() > run::kMostLineBytes) {  // this is no line
      offset_ += text.size();
      text.clear();
    }
  }
  return lines;
}

}  // namespace rekindle::view
