#include "data/folder_listing.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <span>
#include <unordered_map>

#include "base/files.hpp"
#include "base/text.hpp"
#include "data/image_name.hpp"

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

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
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

void note_change(const FolderListing& before, FolderListing& now) {
  const std::string hash = identity_of(before).hex();
  if (identity_of(now).hex() == hash) {  // only times have changed
    now.earlier_hash = before.earlier_hash;
    now.change = before.change;
    return;
  }
  now.earlier_hash = hash;
  std::unordered_map<std::string, std::uint32_t> sizes;
  for (const auto* files : {&before.train, &before.test})
    for (const ListedFile& file : *files) sizes.emplace(before.path_of(file), file.size);
  for (const auto* files : {&now.train, &now.test}) {
    for (const ListedFile& file : *files) {
      const std::string path = now.path_of(file);
      const auto found = sizes.find(path);
      if (found == sizes.end())
        now.change = str(path, " is new");
      else if (found->second != file.size)
        now.change = str(path, " has ", file.size, " bytes, and had ", found->second);
      else
        sizes.erase(found);
      if (!now.change.empty()) return;
    }
  }
  const auto gone = std::ranges::min_element(sizes);
  now.change = gone != sizes.end() ? str(gone->first, " is gone") : "a file has another class or split";
}

bool has_image_folder(const fs::path& root) {
  constexpr int kDepth = 3;  // train/CLASS/images
  fs::path folder = is_folder(root / "train") ? root / "train" : root;
  for (int depth = 0; depth < kDepth; ++depth) {
    const std::vector<std::string> names = names_in(folder).value_or(std::vector<std::string>());
    const auto is_image = [](const std::string& name) { return kind_of(name) == NameKind::kImage; };
    if (folder != root && std::ranges::any_of(names, is_image)) return true;
    const auto inner = std::ranges::find_if(
        names, [&](const std::string& name) { return !name.starts_with('.') && is_folder(folder / name); });
    if (inner == names.end()) return false;
    folder /= *inner;
  }
  return false;
}

std::optional<std::int64_t> stamp_of(const fs::path& root, const std::string& place) {
  if (place.empty()) return hash_of_names(root);
  const auto info = look_at(root / place);
  if (!info || !*info) return std::nullopt;
  return std::max(nanoseconds((*info)->st_mtim), nanoseconds((*info)->st_ctim));
}

std::optional<std::int64_t> modified_at(const fs::path& root, const std::string& place) {
  const auto info = look_at(root / place);
  if (!info || !*info) return std::nullopt;
  return nanoseconds((*info)->st_mtim);
}

}  // namespace rekindle::data
