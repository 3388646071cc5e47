// The file: the magic "RKHASHES", u32 version, u32 zero, the identity of the listing that it was made for (16
// bytes), and records of 32 bytes. The highest bit of a record's number is set if the file could not be
// decoded. A record's checksum includes the identity of its listing, so records of several listings may be in
// one file, and each process finds its own.
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

constexpr std::size_t kHeaderOfAll = 16;  // magic and version; what follows depends on the listing

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
    Note note{.place = place, .has = std::vector<bool>(count)};
    Found found = read(note);
    // Later places are made only if the first one fails.
    if (found == Found::kNone && places_.empty()) found = open_for_more(place) ? read(note) : Found::kForeign;
    if (found == Found::kOurs) notes_.push_back(place.string());
    if (found == Found::kNone || (found == Found::kOurs && open_for_more(place)))
      places_.push_back(std::move(note));
  }
}

FolderContents::~FolderContents() { append(); }

// Never replaces a file: another process may have made it at this moment, and appended its records.
Result<Fd> FolderContents::open_for_more(const FilePath& place) {
  if (!path_exists(place)) REKINDLE_CHECK(prepare_note(place));
  auto fd = open_guarded(place, O_WRONLY | O_APPEND | O_CREAT);
  if (!fd) log_info(str("the hashes of files are not kept there: ", fd.error().what));
  return fd;
}

FolderContents::Found FolderContents::read(Note& note) {
  if (const auto there = look_at(note.place); there && !*there) return Found::kNone;
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
  std::string bytes(std::min(size, kHeaderOfAll), '\0');  // none yet in a file that was just made
  if (!take(0, bytes)) return Found::kForeign;
  if (!header.starts_with(bytes)) {
    log_warning(str(note.place.string(), " has no hashes of files, and is not used: remove it"));
    return Found::kForeign;
  }
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
    // A record of another listing, or of a process that was killed in the middle and may shift the next ones.
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
  while (!pending_.empty() && !places_.empty()) {
    Note& note = places_.front();
    const Found found = read(note);
    if (found == Found::kNone && note.inode != 0)
      places_.clear();  // a person has removed the file: other processes go on with other data
    else if (found != Found::kForeign && append_to(note))
      pending_.clear();
    else
      places_.erase(places_.begin());
  }
  if (places_.empty()) pending_.clear();
  appended_ = std::chrono::steady_clock::now();
}

bool FolderContents::append_to(const Note& note) {
  std::vector<Record> more = pending_;
  std::erase_if(more, [&](const Record& record) {
    return (record.number & kCorruptBit) == 0 && note.has[record.number];
  });
  if (more.empty()) return true;
  const auto fd = open_for_more(note.place);
  struct stat info {};
  if (!fd || ::fstat(fd->get(), &info) != 0) return false;
  // Two processes may both begin the file. The second header is no record, and is passed over.
  std::string bytes = info.st_size == 0 ? header_of(identity_) : "";
  bytes.append(reinterpret_cast<const char*>(more.data()), more.size() * sizeof(Record));
  const ssize_t written = ::write(fd->get(), bytes.data(), bytes.size());
  if (written != static_cast<ssize_t>(bytes.size())) {
    log_info(written < 0
                 ? errno_error("cannot note the hashes of files in", note.place).what
                 : str(note.place.string(), ": the storage is full, hashes of files are not kept there"));
    return false;
  }
  const std::string place = note.place.string();
  if (std::ranges::find(notes_, place) == notes_.end()) notes_.push_back(place);
  return true;
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
