#include "board/event_files.hpp"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "base/input_file.hpp"
#include "base/text.hpp"
#include "board/event_record.hpp"

namespace rekindle::board {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";
// TensorBoard takes the first START of a folder as the beginning, and forgets values only at later ones. So
// each file has one that forgets nothing.
constexpr std::uint64_t kNoStep = INT64_MAX;
constexpr std::uint64_t kMostSeconds = 9'999'999'999;  // of ten digits
constexpr std::uint64_t kPiece = std::uint64_t{1} << 22;

bool is_event_file(const std::string& name) { return name.starts_with(kPrefix); }

// The time in a file's name; 0: there is none.
std::uint64_t seconds_in(std::string_view name) {
  std::uint64_t seconds = 0;
  name.remove_prefix(kPrefix.size());
  std::from_chars(name.data(), name.data() + name.size(), seconds);
  return seconds;
}

// Ten digits, so that names are in the order of time.
std::string name_of(std::uint64_t seconds, const std::string& writer) {
  std::string digits = std::to_string(seconds);
  digits.insert(0, digits.size() < 10 ? 10 - digits.size() : 0, '0');
  return str(kPrefix, digits, ".", writer);
}

// Takes the complete records from the front of `text`; how many bytes they have. Nullopt: no record follows.
std::optional<std::size_t> visit_records(std::string_view text,
                                         const std::function<void(std::string_view)>& visit) {
  std::size_t at = 0;
  while (text.size() - at >= kHeaderBytes) {
    const auto length = length_in(text.substr(at, kHeaderBytes));
    if (!length) return std::nullopt;
    const std::size_t record = kHeaderBytes + *length + kFooterBytes;
    if (text.size() - at < record) break;
    visit(text.substr(at + kHeaderBytes, *length));
    at += record;
  }
  return at;
}

Status read_records(const FilePath& path, const std::function<void(std::string_view)>& visit) {
  REKINDLE_TRY(const InputFile file, open_input(path));
  REKINDLE_CHECK(check_holes(file));
  std::string text;
  for (std::uint64_t at = 0; at < file.size;) {
    const std::size_t before = text.size();
    text.resize(before + std::min(kPiece, file.size - at));
    REKINDLE_CHECK(file.read(at, std::as_writable_bytes(std::span(text).subspan(before))));
    at += text.size() - before;
    const auto done = visit_records(text, visit);
    if (!done) return {};  // TensorBoard reads no further, either
    text.erase(0, *done);
  }
  return {};
}

}  // namespace

Status EventFiles::read(const std::function<void(std::string_view)>& visit) const {
  REKINDLE_TRY(const auto names, names_in(folder_));
  for (const std::string& name : names)
    if (is_event_file(name)) REKINDLE_CHECK(read_records(folder_ / name, visit));
  return {};
}

void EventFiles::add(std::string_view event) { waiting_ += framed(event); }

Status EventFiles::make_file() {
  REKINDLE_CHECK(make_directories(folder_));
  REKINDLE_TRY(const auto names, names_in(folder_));
  std::uint64_t seconds = seconds_;
  for (const std::string& name : names)  // this host's clock may be behind that of another one
    if (is_event_file(name)) seconds = std::max(seconds, std::min(seconds_in(name), kMostSeconds - 1) + 1);
  path_ = folder_ / name_of(seconds, writer_);
  REKINDLE_TRY(file_, open_file(path_, O_WRONLY | O_CREAT | O_EXCL));
  const auto began = static_cast<double>(seconds_);
  waiting_.insert(
      0, framed(encode_version(began)) + framed(encode_start({.wall_time = began, .step = kNoStep})));
  return {};
}

Status EventFiles::write() {
  if (waiting_.empty()) return {};
  if (!file_) REKINDLE_CHECK(make_file());
  // After a failed write the same bytes are written to the same place again.
  REKINDLE_CHECK(write_all(file_.get(), path_, size_, std::as_bytes(std::span(waiting_))));
  size_ += waiting_.size();
  waiting_.clear();
  return {};
}

}  // namespace rekindle::board
