// For the tests of the hashes of an image folder's files: a made folder, a home, and reading samples.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "data/folder_listing.hpp"
#include "data/folder_notes.hpp"
#include "support.hpp"

namespace rekindle::data {

class FolderContentsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_data("image-folder", folder(), 40, 1));
    fs::create_directories(home());
    ::setenv("HOME", home().c_str(), 1);
    ::unsetenv("XDG_CACHE_HOME");
  }
  fs::path home() const { return scratch_.path / "home"; }
  std::size_t notes_at_home() const {
    std::error_code none;
    const fs::directory_iterator notes(home() / ".cache/rekindle/notes", none);
    return none ? 0 : static_cast<std::size_t>(std::distance(begin(notes), end(notes)));
  }
  fs::path folder() const { return scratch_.path / "tiny"; }
  fs::path hashes() const { return note_beside(folder(), kHashesNote).path(); }
  // The training sample 0.
  fs::path image() const { return folder() / "train/n00000000/images/n00000000_0.JPEG"; }
  // The training sample 1.
  fs::path second_image() const { return folder() / "train/n00000000/images/n00000000_1.JPEG"; }
  std::unique_ptr<Dataset> opened(bool skip = false) const {
    auto dataset = open_dataset("image-folder", folder(), {.skip_corrupt = skip});
    EXPECT_TRUE(dataset) << dataset.error().line();
    return dataset ? std::move(*dataset) : nullptr;
  }
  static Status read(const Dataset& dataset, std::size_t sample = 0) {
    const TransformConfig small{16, Augment::kOff};
    Batch batch;
    make_room(batch, dataset.info(), small, 1);
    return dataset.read(Split::kTrain, sample, small, 0, batch, 0);
  }
  static void refused(const Status& status, const std::string& word) {
    ASSERT_FALSE(status) << "no error with: " << word;
    EXPECT_NE(status.error().line().find(word), std::string::npos) << status.error().line();
  }
  // The size stays.
  static void change(const fs::path& file) {
    std::string other = get(file);
    other[other.size() / 2] ^= 1;
    put(file, other);
  }
  // The hashes are neither read from the file nor written to it.
  void is_ignored(const std::string& what) const {
    EXPECT_TRUE(read(*opened())) << what;
    EXPECT_EQ(get(theirs()), "theirs") << what;
  }
  fs::path theirs() const { return scratch_.path / "theirs"; }
  Scratch scratch_;
};

}  // namespace rekindle::data
