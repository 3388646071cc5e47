#include "data/folder_listing.hpp"

#include <array>
#include <span>

#include "base/files.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

void add_number(Hasher128& hasher, std::uint64_t value) {
  std::array<std::uint8_t, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
  hasher.update(std::as_bytes(std::span(bytes)));
}

void add_text(Hasher128& hasher, std::string_view text) {
  add_number(hasher, text.size());
  hasher.update(std::as_bytes(std::span(text)));
}

// Our own files appear beside the data, and must not count.
std::int64_t hash_of_names(const fs::path& root) {
  Hasher128 hasher;
  for (const std::string& name : names_in(root).value_or(std::vector<std::string>())) {
    if (!name.starts_with(".rekindle-")) add_text(hasher, name);
  }
  return static_cast<std::int64_t>(hasher.digest().low);
}

}  // namespace

std::string FolderListing::path_of(const ListedFile& file) const {
  return (fs::path(folders[file.folder].path) / (names.data() + file.name)).string();
}

Hash128 identity_of(const FolderListing& listing) {
  Hasher128 hasher;
  for (const std::string& name : listing.class_names) add_text(hasher, name);
  for (const auto* files : {&listing.train, &listing.test}) {
    add_number(hasher, files->size());
    for (const ListedFile& file : *files) {
      add_number(hasher, std::uint64_t{file.label} << 32 | file.size);
      add_text(hasher, listing.folders[file.folder].path);
      add_text(hasher, listing.names.data() + file.name);
    }
  }
  return hasher.digest();
}

std::optional<std::int64_t> stamp_of(const fs::path& root, const std::string& place) {
  if (place.empty()) return hash_of_names(root);
  const auto info = look_at(root / place);
  if (!info || !*info) return std::nullopt;
  return std::int64_t{(*info)->st_mtim.tv_sec} * 1'000'000'000 + (*info)->st_mtim.tv_nsec;
}

}  // namespace rekindle::data
