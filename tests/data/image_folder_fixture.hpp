// For the tests of image folders: a made one, and reading it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/folder_listing.hpp"
#include "data/folder_notes.hpp"
#include "support.hpp"

namespace rekindle::data {

inline constexpr const char* kKind = "image-folder";

inline constexpr TransformConfig kSmall{16, Augment::kOff};

class ImageFolder : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(make_data(kKind, tiny(), 40, 1)); }
  fs::path tiny() const { return scratch_.path / "tiny"; }
  fs::path at(const std::string& name) const { return scratch_.path / name; }
  // Some made image.
  std::string image(std::size_t number = 0) const {
    return get(tiny() / "val/images" / ("val_" + std::to_string(number % 8) + ".JPEG"));
  }
  // `count` images in each of these classes of a folder.
  void fill(const fs::path& folder, const std::vector<std::string>& classes, std::size_t count) const {
    for (const std::string& name : classes)
      for (std::size_t i = 0; i < count; ++i) put(folder / name / (std::to_string(i) + ".jpg"), image(i));
  }
  std::unique_ptr<Dataset> opened(const fs::path& path, bool skip = false) const {
    auto dataset = open_dataset(kKind, path, {.skip_corrupt = skip});
    EXPECT_TRUE(dataset) << dataset.error().line();
    return dataset ? std::move(*dataset) : nullptr;
  }
  static fs::path index_of(const fs::path& root) { return note_beside(root, kIndexNote).path(); }
  static Result<Batch> read(const Dataset& dataset, Split split, std::size_t index,
                            const TransformConfig& config = kSmall, std::uint64_t key = 0) {
    Batch batch;
    make_room(batch, dataset.info(), config, 1);
    if (auto status = dataset.read(split, index, config, key, batch, 0); !status)
      return forward_error(status.error());
    return batch;
  }
  static void refused(const Error& error, const std::string& word) {
    EXPECT_EQ(error.code, ExitCode::kConfig) << error.line();
    EXPECT_NE(error.line().find(word), std::string::npos) << error.line() << "\nhas no: " << word;
    EXPECT_FALSE(error.hint.empty()) << error.line();
    EXPECT_EQ(error.line().find('\n'), std::string::npos) << error.line();
  }
  void refused(const fs::path& path, const std::string& word) const {
    const auto dataset = open_dataset(kKind, path, {});
    ASSERT_FALSE(dataset) << "opened although: " << word;
    refused(dataset.error(), word);
    EXPECT_NE(dataset.error().line().find(path.string()), std::string::npos) << dataset.error().line();
  }
  Scratch scratch_;
};

}  // namespace rekindle::data
