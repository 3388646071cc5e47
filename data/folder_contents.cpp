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

namespace rekindle::data {

namespace fs = std::filesystem;

struct FolderContents::Record {
  std::uint64_t number = 0, high = 0, low = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of the other fields and the identity

  std::uint64_t sum(const Hash128& identity) const {
    const std::array<std::uint64_t, 5> words = {number, high, low, identity.high, identity.low};
    return hash64(std::as_bytes(std::span(words)));
  }
};

namespace {

constexpr std::uint64_t kCorruptBit = std::uint64_t{1} << 63;

// A process that is killed loses the records of this time.
constexpr std::chrono::seconds kAppendEvery{1};

std::string header_of(const Hash128& identity) {
  std::string header = "RKHASHES";
  for (const std::uint64_t word : {std::uint64_t{1}, identity.high, identity.low})
    header.append(reinterpret_cast<const char*>(&word), sizeof word);
  return header;
}

}  // namespace

fs::path contents_path(const fs::path& root) { return root / ".rekindle-hashes"; }

FolderContents::FolderContents(fs::path root, const Hash128& identity, std::size_t count, bool skips_corrupt)
    : file_(contents_path(root)),
      identity_(identity),
      hashes_(count),
      skips_corrupt_(skips_corrupt),
      corrupt_(count) {
  load();
}

FolderContents::~FolderContents() { append(); }

// Replaces the file of another listing. The first of several hashes of a file counts.
void FolderContents::load() {
  const std::string header = header_of(identity_);
  std::string bytes;
  if (path_exists(file_)) {
    const auto fd = open_guarded(file_, O_RDONLY);
    if (!fd) return log_info(str("the hashes of files are not read: ", fd.error().what));
    struct stat info {};
    if (::fstat(fd->get(), &info) == 0) bytes.resize(static_cast<std::size_t>(info.st_size));
    if (!read_into(fd->get(), file_, 0, std::as_writable_bytes(std::span(bytes)))) bytes.clear();
  }
  if (!bytes.starts_with(header)) {
    std::ignore = replace_file_quickly(file_, header);  // no file where the folder cannot be written
    return;
  }
  // A record of a process that was killed in the middle may shift the next ones.
  for (std::size_t at = header.size(); at + sizeof(Record) <= bytes.size();) {
    Record record;
    std::memcpy(&record, bytes.data() + at, sizeof record);
    const std::uint64_t number = record.number & ~kCorruptBit;
    const bool valid = record.checksum == record.sum(identity_) && number < hashes_.size();
    const Hash128 hash{record.high, record.low};
    if (valid && number != record.number)
      corrupt_hashes_.emplace(number, hash);
    else if (valid && hashes_[number] == Hash128{})
      hashes_[number] = hash;
    at += valid ? sizeof record : 1;
  }
}

void FolderContents::append() {
  if (pending_.empty()) return;
  const auto fd = open_guarded(file_, O_WRONLY | O_APPEND);
  if (fd && ::write(fd->get(), pending_.data(), pending_.size()) < 0)
    log_debug(errno_error("cannot note the hashes of files in", file_).what);
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
  return forward_error(
      {ExitCode::kConfig, str(path, " has another content than when it was first read"),
       str("restore it, or, if the change is wanted, remove ", file_.string(), " and start a new run"),
       ErrorKind::kChangedData});
}

void FolderContents::note(std::size_t number, const Hash128& hash) {
  const std::lock_guard lock(mutex_);
  if (hashes_[number] != Hash128{}) return;
  hashes_[number] = hash;
  record(number, hash);
}

void FolderContents::record(std::uint64_t number, const Hash128& hash) {
  Record record{number, hash.high, hash.low};
  record.checksum = record.sum(identity_);
  pending_.append(reinterpret_cast<const char*>(&record), sizeof record);
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
  if (skips_corrupt_ && corrupt_hashes_.emplace(number, hash).second) record(number | kCorruptBit, hash);
  if (corrupt_[number]) return false;
  corrupt_[number] = true;
  return true;
}

}  // namespace rekindle::data
