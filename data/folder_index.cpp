// The index, little-endian:
//
//   magic "RKFOLDER", u32 version
//   u32 count, then for each class: text (u32 length, bytes)
//   twice (folders, lists): u32 count, then for each: text, i64 stamp
//   text: the names
//   twice (train, test): u32 count, then for each file: u32 name, folder, label, size
//   text: the identity (hex) of the listing before this one; text: the first difference
//   XXH3-128 of all bytes before (u64 low, u64 high)
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <string_view>

#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "data/folder_listing.hpp"
#include "data/folder_notes.hpp"
#include "data/formats.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little && sizeof(ListedFile) == 16);

constexpr std::string_view kMagic = "RKFOLDER";
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kChecksum = 16;

class Writer {
 public:
  template <class Number>
  void number(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  void raw(std::string_view bytes) { bytes_ += bytes; }
  void files(const std::vector<ListedFile>& files) {
    number(static_cast<std::uint32_t>(files.size()));
    raw({reinterpret_cast<const char*>(files.data()), files.size() * sizeof(ListedFile)});
  }
  std::string finished() && {
    const Hash128 hash = hash128(std::as_bytes(std::span(bytes_)));
    number(hash.low);
    number(hash.high);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// After a read outside of the bytes all further reads give zeros and good() is false.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : left_(bytes) {}

  bool good() const { return good_; }
  bool at_end() const { return left_.empty(); }
  std::string_view take(std::uint64_t count) {
    if (count > left_.size()) {
      good_ = false;
      return {};
    }
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  template <class Number>
  Number number() {
    const std::string_view bytes = take(sizeof(Number));
    Number value = 0;
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<std::uint32_t>())); }
  // Each item has at least 4 bytes, so that a count cannot ask for much memory.
  std::uint32_t count() {
    const auto items = number<std::uint32_t>();
    if (items > left_.size() / 4) good_ = false;
    return good_ ? items : 0;
  }
  std::vector<ListedFile> files() {
    const std::uint32_t items = count();
    const std::string_view bytes = take(std::uint64_t{items} * sizeof(ListedFile));
    std::vector<ListedFile> files(bytes.size() / sizeof(ListedFile));
    if (!files.empty()) std::memcpy(files.data(), bytes.data(), bytes.size());
    return files;
  }

 private:
  std::string_view left_;
  bool good_ = true;
};

std::vector<ListedPlace> read_places(Cursor& cursor) {
  std::vector<ListedPlace> places(cursor.count());
  for (ListedPlace& place : places) {
    place.path = cursor.text();
    place.stamp = cursor.number<std::int64_t>();
  }
  return places;
}

bool stays_inside(const std::string& path) {
  const fs::path parts(path);
  return parts.is_relative() && path.find('\0') == std::string::npos &&
         std::ranges::none_of(parts, [](const fs::path& part) { return part == ".."; });
}

bool is_consistent(const FolderListing& listing) {
  const std::string& names = listing.names;
  if (listing.class_names.size() < 2 || names.empty() || names.back() != '\0' ||
      names.find('/') != std::string::npos || listing.train.empty() || listing.test.empty())
    return false;
  for (const auto* places : {&listing.folders, &listing.lists})
    for (const ListedPlace& place : *places)
      if (!stays_inside(place.path)) return false;
  for (const auto* files : {&listing.train, &listing.test})
    for (const ListedFile& file : *files)
      if (file.name >= names.size() || file.folder >= listing.folders.size() ||
          file.label >= listing.class_names.size())
        return false;
  return true;
}

std::optional<FolderListing> parse(std::string_view bytes) {
  if (bytes.size() < kMagic.size() + kChecksum) return std::nullopt;
  Cursor checksum(bytes.substr(bytes.size() - kChecksum));
  bytes.remove_suffix(kChecksum);
  const Hash128 hash = hash128(std::as_bytes(std::span(bytes)));
  if (checksum.number<std::uint64_t>() != hash.low || checksum.number<std::uint64_t>() != hash.high)
    return std::nullopt;
  Cursor cursor(bytes);
  if (cursor.take(kMagic.size()) != kMagic || cursor.number<std::uint32_t>() != kVersion) return std::nullopt;
  FolderListing listing;
  listing.class_names.resize(cursor.count());
  for (std::string& name : listing.class_names) name = cursor.text();
  listing.folders = read_places(cursor);
  listing.lists = read_places(cursor);
  listing.names = cursor.text();
  listing.train = cursor.files();
  listing.test = cursor.files();
  listing.earlier_hash = cursor.text();
  listing.change = cursor.text();
  if (!cursor.good() || !cursor.at_end() || !is_consistent(listing)) return std::nullopt;
  return listing;
}

std::optional<FolderListing> listing_in(const FilePath& path, const fs::path& root) {
  if (!path_exists(path)) return std::nullopt;
  const auto file = open_data_file(path);
  if (!file) return std::nullopt;
  if (!is_of_user(file->owner, root)) {
    log_info(str(path.string(), " is not used, because it belongs to another user"));
    return std::nullopt;
  }
  std::string bytes(file->size, '\0');
  if (!file->read(0, std::as_writable_bytes(std::span(bytes)))) return std::nullopt;
  auto listing = parse(bytes);
  if (!listing)
    log_warning(str(path.string(), " is damaged or of another version: the folder is read again"));
  return listing;
}

// The modification times of the places whose stamp is a time: not the root.
std::vector<std::int64_t> times_of(const FolderListing& listing, const fs::path& root) {
  std::vector<std::int64_t> times;
  for (const auto* places : {&listing.folders, &listing.lists})
    for (const ListedPlace& place : *places)
      if (!place.path.empty()) times.push_back(modified_at(root, place.path).value_or(0));
  return times;
}

// In an image of a file system all times may be the same, or none: another image at the same path would not
// be noticed.
bool times_tell(const std::vector<std::int64_t>& times) {
  return std::ranges::any_of(times, [&](std::int64_t time) { return time > 0 && time != times.front(); });
}

std::string text_of(const FolderListing& listing) {
  Writer writer;
  writer.raw(kMagic);
  writer.number(kVersion);
  writer.number(static_cast<std::uint32_t>(listing.class_names.size()));
  for (const std::string& name : listing.class_names) writer.text(name);
  for (const auto* places : {&listing.folders, &listing.lists}) {
    writer.number(static_cast<std::uint32_t>(places->size()));
    for (const ListedPlace& place : *places) {
      writer.text(place.path);
      writer.number(place.stamp);
    }
  }
  writer.text(listing.names);
  writer.files(listing.train);
  writer.files(listing.test);
  writer.text(listing.earlier_hash);
  writer.text(listing.change);
  return std::move(writer).finished();
}

// A copy that is restored in place does not change its folder's time. Few files are empty, so this is cheap.
bool has_filled_file(const FolderListing& listing, const fs::path& root) {
  const auto filled = [&](const ListedFile& file) {
    if (file.size > 0) return false;
    const auto info = look_at(root / listing.path_of(file));
    return !info || !*info || (*info)->st_size > 0;
  };
  return std::ranges::any_of(listing.train, filled) || std::ranges::any_of(listing.test, filled);
}

bool is_of_now(const FolderListing& listing, const fs::path& root) {
  for (const auto* places : {&listing.folders, &listing.lists})
    for (const ListedPlace& place : *places)
      if (stamp_of(root, place.path) != place.stamp) return false;
  return !has_filled_file(listing, root);
}

// By outdate_index().
bool is_marked(const FolderListing& listing, const fs::path& root) {
  const ListedPlace& first = listing.folders.front();
  return stamp_of(root, first.path) == ~first.stamp;
}

// Who could not write to the index at `path` has marked a copy of it in another place.
bool has_marked_copy(const FolderListing& listing, const FilePath& path, const fs::path& root) {
  return std::ranges::any_of(note_places(root, kIndexNote), [&](const FilePath& other) {
    auto copy = other.string() == path.string() ? std::nullopt : listing_in(other, root);
    if (!copy || !is_marked(*copy, root)) return false;
    copy->folders.front().stamp = listing.folders.front().stamp;
    return text_of(*copy) == text_of(listing);
  });
}

}  // namespace

std::optional<FolderListing> read_index(const fs::path& root, FolderListing* outdated) {
  for (const FilePath& path : note_places(root, kIndexNote)) {
    auto listing = listing_in(path, root);
    if (!listing) continue;
    const bool marked = is_marked(*listing, root) || has_marked_copy(*listing, path, root);
    if (!marked && is_of_now(*listing, root)) return listing;
    if (outdated != nullptr && outdated->train.empty()) *outdated = std::move(*listing);
    if (marked) break;
  }
  return std::nullopt;
}

void write_index(const fs::path& root, const FolderListing& listing) {
  // A change in the same tick of the file system's clock would not be seen. Storage has its own clock, so
  // that of this machine is compared with some room.
  const auto now = std::chrono::system_clock::now().time_since_epoch() - std::chrono::seconds(2);
  const std::vector<std::int64_t> times = times_of(listing, root);
  // A time far ahead, as of an archive from a machine with a wrong clock, differs from that of a later
  // change.
  const auto later = now + std::chrono::hours(1);
  const auto is_recent = [&](std::int64_t time) {
    return time > std::chrono::nanoseconds(now).count() && time < std::chrono::nanoseconds(later).count();
  };
  if (std::ranges::any_of(times, is_recent)) return;
  const std::string text = text_of(listing);
  for (const FilePath& place : note_places(root, kIndexNote)) {
    if (place.trust() == Trust::kOwn && !times_tell(times)) continue;
    if (!may_replace(place, root)) continue;
    const auto written = write_note(place, text);
    if (written) return;
    log_debug(str("no index: ", written.error().what));
  }
}

std::string outdate_index(const fs::path& root) {
  const std::vector<FilePath> places = note_places(root, kIndexNote);
  for (const FilePath& used : places) {
    auto listing = listing_in(used, root);
    if (!listing) continue;
    if (is_marked(*listing, root)) return {};
    if (!is_of_now(*listing, root)) continue;
    listing->folders.front().stamp = ~listing->folders.front().stamp;
    const std::string text = text_of(*listing);
    const bool written = std::ranges::any_of(
        places, [&](const FilePath& place) { return may_replace(place, root) && write_note(place, text); });
    return written ? std::string() : used.string();
  }
  return {};
}

}  // namespace rekindle::data
