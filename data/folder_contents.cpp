// The file: the magic "RKHASHES", u32 version, u32 zero, the listing's identity (16 bytes), and records of 32
// bytes. The highest bit of a record's number is set if the file could not be decoded.
#include "data/folder_contents.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>

#include "base/guarded_file.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "data/folder_notes.hpp"

namespace rekindle::data {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kCorruptBit = std::uint64_t{1} << 63;

// A process that is killed loses the records of this time.
constexpr std::chrono::seconds kAppendEvery{1};

constexpr std::size_t kPiece = std::size_t{1} << 20;

std::string header_of(const Hash128& identity) {
  std::string header = "RKHASHES";
  for (const std::uint64_t word : {std::uint64_t{1}, identity.high, identity.low})
    header.append(reinterpret_cast<const char*>(&word), sizeof word);
  return header;
}

}  // namespace

std::uint64_t FolderContents::Record::sum(const Hash128& identity) const {
  const std::array<std::uint64_t, 5> words = {number, high, low, identity.high, identity.low};
  return hash64(std::as_bytes(std::span(words)));
}

FolderContents::FolderContents(const fs::path& root, const Hash128& identity, std::size_t count,
                               bool skips_corrupt)
    : identity_(identity), hashes_(count), skips_corrupt_(skips_corrupt), corrupt_(count) {
  // Without a place, the hashes are kept in memory.
  for (const FilePath& place : note_places(root, kHashesNote, identity.hex())) {
    Note note{.place = place};
    Found found = read(note);
    if (found == Found::kNone && !note_ && write_note(place, header_of(identity_))) found = Found::kOurs;
    if (found != Found::kOurs) continue;
    notes_.push_back(place.string());
    if (!note_) note_ = note;
  }
}

FolderContents::~FolderContents() { append(); }

FolderContents::Found FolderContents::read(Note& note) {
  if (!path_exists(note.place)) return Found::kNone;
  const auto fd = open_guarded(note.place, O_RDONLY);
  if (!fd) {
    log_info(str("the hashes of files are not read: ", fd.error().what));
    return Found::kForeign;
  }
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return Found::kForeign;
  const auto size = static_cast<std::size_t>(info.st_size);
  const auto take = [&](std::size_t at, std::string& bytes) {
    return read_into(fd->get(), note.place, at, std::as_writable_bytes(std::span(bytes))).has_value();
  };
  const std::string header = header_of(identity_);
  std::string bytes(std::min(size, header.size()), '\0');
  if (!take(0, bytes) || bytes != header) return Found::kNone;
  if (info.st_ino != note.inode || note.read > size) {  // the first time, or another process has made it anew
    note.inode = info.st_ino;
    note.read = header.size();
    note.has.assign(hashes_.size(), false);
  }
  while (note.read + sizeof(Record) <= size) {
    bytes.resize(std::min(kPiece, size - note.read));
    if (!take(note.read, bytes)) break;
    note.read += take_records(bytes, note);
  }
  return Found::kOurs;
}

std::size_t FolderContents::take_records(std::string_view bytes, Note& note) {
  std::size_t at = 0;
  while (at + sizeof(Record) <= bytes.size()) {
    Record record;
    std::memcpy(&record, bytes.data() + at, sizeof record);
    const bool valid = record.checksum == record.sum(identity_);
    if (valid) take(record, note);
    // A record of a process that was killed in the middle may shift the next ones.
    at += valid ? sizeof record : 1;
  }
  return at;
}

// The first of several hashes of a file counts.
void FolderContents::take(const Record& record, Note& note) {
  const std::uint64_t number = record.number & ~kCorruptBit;
  if (number >= hashes_.size()) return;
  const Hash128 hash{record.high, record.low};
  if (number != record.number) {
    corrupt_hashes_.emplace(number, hash);
    return;
  }
  if (hashes_[number] == Hash128{}) hashes_[number] = hash;
  note.has[number] = true;
}

void FolderContents::append() {
  if (pending_.empty()) return;
  // A file of another listing, or none, ends it: other processes go on with other data.
  if (note_ && read(*note_) != Found::kOurs) note_.reset();
  if (note_) {
    std::erase_if(pending_, [&](const Record& record) {
      return (record.number & kCorruptBit) == 0 && note_->has[record.number];
    });
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(pending_));
  if (note_ && !bytes.empty()) {
    const auto fd = open_guarded(note_->place, O_WRONLY | O_APPEND);
    if (fd && ::write(fd->get(), bytes.data(), bytes.size()) < 0)
      log_debug(errno_error("cannot note the hashes of files in", note_->place).what);
  }
  pending_.clear();
  appended_ = std::chrono::steady_clock::now();
}

Status FolderContents::check(std::size_t number, const Hash128& hash, const std::string& path) {
  const std::lock_guard lock(mutex_);
  append_if_due();
  const auto corrupt = corrupt_hashes_.find(number);
  const bool other_corrupt = skips_corrupt_ && corrupt != corrupt_hashes_.end() && corrupt->second != hash;
  const Hash128& before = hashes_[number];
  if (!other_corrupt && (before == hash || before == Hash128{})) return {};
  std::string notes;
  for (const std::string& note : notes_) notes += (notes.empty() ? "remove " : " and ") + note;
  return forward_error({ExitCode::kConfig, str(path, " has another content than when it was first read"),
                        str("restore it, or, if the change is wanted, ", notes, notes.empty() ? "" : " and ",
                            "start a new run"),
                        ErrorKind::kChangedData});
}

void FolderContents::note(std::size_t number, const Hash128& hash) {
  const std::lock_guard lock(mutex_);
  if (hashes_[number] != Hash128{}) return;
  hashes_[number] = hash;
  note_new(number, hash);
}

void FolderContents::note_new(std::uint64_t number, const Hash128& hash) {
  Record record{number, hash.high, hash.low};
  record.checksum = record.sum(identity_);
  pending_.push_back(record);
  append_if_due();
}

void FolderContents::append_if_due() {
  if (std::chrono::steady_clock::now() - appended_ >= kAppendEvery) append();
}

bool FolderContents::is_corrupt(std::size_t number) {
  const std::lock_guard lock(mutex_);
  return corrupt_[number];
}

bool FolderContents::note_corrupt(std::size_t number, const Hash128& hash) {
  const std::lock_guard lock(mutex_);
  if (skips_corrupt_ && corrupt_hashes_.emplace(number, hash).second) note_new(number | kCorruptBit, hash);
  if (corrupt_[number]) return false;
  corrupt_[number] = true;
  return true;
}

}  // namespace rekindle::data
