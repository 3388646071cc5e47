#include <algorithm>
#include <cctype>
#include <iterator>
#include <span>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "base/files.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "data/folder_entries.hpp"
#include "data/folder_listing.hpp"
#include "data/formats.hpp"
#include "data/image_name.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 16;  // of folders inside a class; more is a loop of links
constexpr const char* kAnnotations = "val_annotations.txt";

bool names_a_split(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view end : {"_set", "-set"})
    if (name.ends_with(end)) name.resize(name.size() - end.size());
  constexpr std::string_view kSplits[] = {"train",      "training", "val",    "valid",
                                          "validation", "test",     "testing"};
  return std::ranges::find(kSplits, name) != std::end(kSplits);
}

class Scanner {
 public:
  explicit Scanner(fs::path root) : root_(std::move(root)) {}

  Result<FolderListing> scan() {
    fs::path train, test;
    if (is_folder(root_ / "train")) {
      note_folder({});  // a folder that appears there may be another layout
      train = "train";
      REKINDLE_TRY(test, test_folder(root_, "a tenth"));
    }
    REKINDLE_TRY(listing_.class_names, classes_in(train));
    REKINDLE_CHECK(check_classes(train));
    if (train.empty()) REKINDLE_CHECK(check_no_splits());
    REKINDLE_CHECK(list_classes(train, listing_.train, false));
    // A script may have sorted TinyImageNet's images into folders, in val or in val/images.
    if (!test.empty() && has_first_class(test / "images")) test /= "images";
    if (test.empty())
      split_off_a_tenth();
    else
      REKINDLE_CHECK(path_exists(root_ / test / kAnnotations) && !has_first_class(test)
                         ? list_annotated(test)
                         : list_test_classes(test));
    REKINDLE_CHECK(check_count(listing_.train, train));
    REKINDLE_CHECK(check_count(listing_.test, test));
    return std::move(listing_);
  }

 private:
  bool has_first_class(const fs::path& folder) const {
    return is_folder(root_ / folder / listing_.class_names.front());
  }

  // Before its names are read, so that a later change is seen.
  std::uint32_t note_folder(const fs::path& folder) {
    listing_.folders.push_back({folder.string(), stamp_of(root_, folder.string()).value_or(0)});
    return static_cast<std::uint32_t>(listing_.folders.size() - 1);
  }

  Result<std::vector<std::string>> classes_in(const fs::path& folder) {
    note_folder(folder);
    REKINDLE_TRY(const std::vector<FolderEntry> entries, entries_in(root_ / folder));
    std::vector<std::string> names;
    for (const FolderEntry& entry : entries)
      if (entry.folder) names.push_back(entry.name);
    return names;
  }

  Status check_classes(const fs::path& folder) const {
    const std::string path = (root_ / folder).string();
    if (listing_.class_names.empty())
      return fail(ExitCode::kConfig, str(path, " has no folders of images"),
                  "an image folder has a folder for each class, with JPEG or PNG files");
    if (listing_.class_names.size() == 1)
      return fail(ExitCode::kConfig, str(path, " has only one class, ", printable(listing_.class_names[0])),
                  "an image folder has a folder for each class, and two classes or more");
    return {};
  }

  // One such folder alone may be a class: a train among vehicles.
  Status check_no_splits() const {
    std::vector<std::string> splits;
    std::ranges::copy_if(listing_.class_names, std::back_inserter(splits), names_a_split);
    if (splits.size() < 2) return {};
    return fail(ExitCode::kConfig,
                str(root_.string(), " has the folders ", splits[0], " and ", splits[1],
                    ", which look like splits and would be classes"),
                "rename them to train and val, or, if they are classes, to other names");
  }

  Status list_classes(const fs::path& folder, std::vector<ListedFile>& files, bool may_be_empty) {
    for (std::uint32_t label = 0; label < listing_.class_names.size(); ++label) {
      const std::size_t before = files.size();
      REKINDLE_CHECK(list(folder / listing_.class_names[label], label, 0, files));
      if (files.size() == before && !may_be_empty)
        return fail(ExitCode::kConfig,
                    str((root_ / folder / listing_.class_names[label]).string(), " has no JPEG or PNG files"),
                    "a folder is a class: add its images, or remove it");
    }
    return {};
  }

  Status add(const FolderEntry& entry, std::uint32_t folder, std::uint32_t label,
             std::vector<ListedFile>& files) {
    const std::string path = (root_ / listing_.folders[folder].path / entry.name).string();
    if (entry.size >= kMostImageBytes || listing_.names.size() + entry.name.size() >= UINT32_MAX)
      return fail(ExitCode::kConfig, str(path, " is too large for an image"), "remove it");
    files.push_back({static_cast<std::uint32_t>(listing_.names.size()), folder, label,
                     static_cast<std::uint32_t>(entry.size)});
    listing_.names += entry.name;
    listing_.names += '\0';
    return {};
  }

  Status check_kind(const fs::path& folder, const FolderEntry& entry) const {
    if (kind_of(entry.name) == NameKind::kImage) return {};
    return fail(ExitCode::kConfig,
                str((root_ / folder / entry.name).string(), " is an image that is not JPEG or PNG"),
                "convert it to PNG");
  }

  Status list(const fs::path& folder, std::uint32_t label, int depth, std::vector<ListedFile>& files) {
    if (depth > kMostDepth)
      return fail(ExitCode::kConfig, str((root_ / folder).string(), " is more than 16 folders deep"),
                  "remove links that lead back");
    const std::uint32_t number = note_folder(folder);
    REKINDLE_TRY(const std::vector<FolderEntry> entries, entries_in(root_ / folder));
    for (const FolderEntry& entry : entries) {
      if (entry.folder || kind_of(entry.name) == NameKind::kNone) continue;
      REKINDLE_CHECK(check_kind(folder, entry));
      REKINDLE_CHECK(add(entry, number, label, files));
    }
    for (const FolderEntry& entry : entries)
      if (entry.folder) REKINDLE_CHECK(list(folder / entry.name, label, depth + 1, files));
    return {};
  }

  Status list_test_classes(const fs::path& folder) {
    REKINDLE_TRY(const std::vector<std::string> names, classes_in(folder));
    if (names.empty())
      return fail(ExitCode::kConfig, str((root_ / folder).string(), " has no folders of classes"),
                  "sort its images into folders of their classes, as those of train are");
    const auto differing = [&](const std::vector<std::string>& a, const std::vector<std::string>& b) {
      const auto found = std::ranges::find_if(
          a, [&](const std::string& name) { return !std::ranges::binary_search(b, name); });
      return found == a.end() ? std::string() : *found;
    };
    std::string more = differing(names, listing_.class_names), has = folder.string(), lacks = "train";
    if (more.empty()) {
      more = differing(listing_.class_names, names);
      std::swap(has, lacks);
    }
    if (!more.empty())
      return fail(ExitCode::kConfig,
                  str(root_.string(), " has the class ", printable(more), " in ", has, " but not in ", lacks),
                  "both need the same folders: an empty one, if a class has no test images");
    return list_classes(folder, listing_.test, true);
  }

  // Lines of a file's name, a tab, its class, and more.
  Status list_annotated(const fs::path& folder) {
    const fs::path list = folder / kAnnotations;
    listing_.lists.push_back({list.string(), stamp_of(root_, list.string()).value_or(0)});
    constexpr std::size_t kMostBytes = std::size_t{1} << 30;
    const auto text = read_text(root_ / list, kMostBytes);
    if (!text) return fail(ExitCode::kConfig, text.error().what, "get the data set again");
    std::unordered_map<std::string, std::uint32_t> labels;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t tab = line.find('\t'),
                        end = std::min(line.find_first_of("\t\r", tab + 1), line.size());
      if (tab == std::string::npos) continue;
      const std::string class_name = line.substr(tab + 1, end - tab - 1);
      const auto found = std::ranges::lower_bound(listing_.class_names, class_name);
      if (found == listing_.class_names.end() || *found != class_name)
        return fail(
            ExitCode::kConfig,
            str((root_ / list).string(), " has the class ", printable(class_name), ", which train has not"),
            "both need the same classes");
      const auto label = static_cast<std::uint32_t>(found - listing_.class_names.begin());
      if (!labels.emplace(line.substr(0, tab), label).second)
        return fail(ExitCode::kConfig,
                    str((root_ / list).string(), " names ", printable(line.substr(0, tab)), " twice"),
                    "get the data set again");
    }
    const fs::path images = folder / "images";
    const std::uint32_t number = note_folder(images);
    REKINDLE_TRY(const std::vector<FolderEntry> entries, entries_in(root_ / images));
    for (const FolderEntry& entry : entries) {
      if (entry.folder || kind_of(entry.name) == NameKind::kNone) continue;
      REKINDLE_CHECK(check_kind(images, entry));
      const auto label = labels.find(entry.name);
      if (label == labels.end())
        return fail(ExitCode::kConfig,
                    str((root_ / list).string(), " does not name the class of ", printable(entry.name)),
                    "get the data set again");
      REKINDLE_CHECK(add(entry, number, label->second, listing_.test));
      labels.erase(label);
    }
    if (!labels.empty())
      return fail(
          ExitCode::kConfig,
          str((root_ / images / printable(std::ranges::min_element(labels)->first)).string(),
              " is missing, one of ", labels.size(), " such images that ", (root_ / list).string(), " names"),
          "the copy is incomplete: get the data set again");
    std::ranges::stable_sort(listing_.test, {}, &ListedFile::label);
    return {};
  }

  // Of each class with two files or more, at least one. The split of a file does not depend on its folder's
  // place.
  void split_off_a_tenth() {
    std::vector<ListedFile> all = std::exchange(listing_.train, {});
    for (auto begin = all.begin(); begin != all.end();) {
      const auto end =
          std::find_if(begin, all.end(), [&](const ListedFile& f) { return f.label != begin->label; });
      std::vector<std::pair<std::uint64_t, std::size_t>> order;
      for (auto file = begin; file != end; ++file) {
        const std::string path = listing_.path_of(*file);
        order.emplace_back(hash64(std::as_bytes(std::span(path))), static_cast<std::size_t>(file - begin));
      }
      std::ranges::sort(order);
      const std::size_t tests = order.size() < 2 ? 0 : std::max<std::size_t>(1, order.size() / 10);
      std::vector<bool> is_test(order.size());
      for (std::size_t i = 0; i < tests; ++i) is_test[order[i].second] = true;
      for (std::size_t i = 0; i < order.size(); ++i)
        (is_test[i] ? listing_.test : listing_.train).push_back(begin[static_cast<std::ptrdiff_t>(i)]);
      begin = end;
    }
  }

  Status check_count(const std::vector<ListedFile>& files, const fs::path& folder) const {
    if (files.empty())
      return fail(ExitCode::kConfig, str((root_ / folder).string(), " has too few images"),
                  "an image folder needs training and test images");
    if (files.size() > UINT32_MAX)
      return fail(ExitCode::kConfig, str((root_ / folder).string(), " has more than 4294967295 images"),
                  "use a part of them");
    return {};
  }

  const fs::path root_;
  FolderListing listing_;
};

}  // namespace

Result<FolderListing> scan_folder(const fs::path& root) { return Scanner(root).scan(); }

}  // namespace rekindle::data
