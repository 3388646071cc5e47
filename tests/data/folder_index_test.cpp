// The index of an image folder: when it is used, and what happens if it does not match the files.
#include <unistd.h>

#include <chrono>
#include <functional>

#include "../needs.hpp"
#include "base/text.hpp"
#include "image_folder_fixture.hpp"

namespace rekindle::data {
namespace {

class FolderIndex : public ImageFolder {
 protected:
  // The error of the training sample in this file.
  static Error read_of(const Dataset& dataset, const fs::path& path) {
    for (std::size_t i = 0; i < dataset.info().train_count; ++i) {
      const auto sample = read(dataset, Split::kTrain, i);
      if (!sample && sample.error().what.starts_with(path.string())) return sample.error();
    }
    ADD_FAILURE() << path << " was read without an error";
    return {};
  }
};

TEST_F(FolderIndex, AnIndexIsUsedUntilAFolderChanges) {
  age(tiny());
  const std::string before = opened(tiny())->info().content_hash;
  ASSERT_TRUE(fs::exists(index_of(tiny())));
  ASSERT_TRUE(read_index(tiny()));
  EXPECT_EQ(opened(tiny())->info().content_hash, before);
  put(tiny() / "train/n00000000/images/more.JPEG", image());
  EXPECT_FALSE(read_index(tiny()));
  EXPECT_EQ(opened(tiny())->info().train_count, 41U);
  fs::remove(tiny() / "train/n00000000/images/more.JPEG");
  age(tiny());
  EXPECT_EQ(opened(tiny())->info().content_hash, before);
  EXPECT_TRUE(read_index(tiny()));
  fs::create_directory(tiny() / "elsewhere");
  EXPECT_FALSE(read_index(tiny())) << "a new name in the root";
}

// As rsync -a and tar do.
TEST_F(FolderIndex, AChangeIsSeen_AlsoIfTheTimeIsPutBack) {
  const auto change = [&](const fs::path& place, const std::function<void()>& act) {
    age(tiny());
    opened(tiny());
    ASSERT_TRUE(read_index(tiny()));
    const auto time = fs::last_write_time(place);
    act();
    fs::last_write_time(place, time);
    EXPECT_FALSE(read_index(tiny())) << place;
  };
  const fs::path folder = tiny() / "train/n00000000/images", list = tiny() / "val/val_annotations.txt";
  change(folder, [&] { put(folder / "more.JPEG", image()); });
  const std::string labels = get(list);
  change(list, [&] { put(list, labels); });
}

TEST_F(FolderIndex, WhatChangedFirstIsNamed_ToLaterProcessesToo) {
  const fs::path folder = tiny() / "train/n00000000/images", more = folder / "more.JPEG";
  const auto info = [&] {
    age(tiny());
    return opened(tiny())->info();
  };
  const std::string first = info().content_hash;
  EXPECT_EQ(info().change, "");
  put(more, image());
  for (int process = 0; process < 2; ++process) {
    EXPECT_EQ(info().earlier_hash, first);
    EXPECT_EQ(info().change, "train/n00000000/images/more.JPEG is new");
  }
  const std::string second = info().content_hash;
  const auto size = fs::file_size(more);
  put(more, image() + "more");  // in place: the folder keeps its time
  const auto unaware = opened(tiny());
  ASSERT_EQ(unaware->info().content_hash, second);
  refused(read_of(*unaware, more), str("more.JPEG has ", size + 4, " bytes, but ", size));
  const auto longer = opened(tiny())->info();
  EXPECT_EQ(longer.earlier_hash, second);
  EXPECT_EQ(longer.change, str("train/n00000000/images/more.JPEG has ", size + 4, " bytes, and had ", size));
  fs::remove(more);
  EXPECT_EQ(info().change, "train/n00000000/images/more.JPEG is gone");
}

TEST_F(FolderIndex, NoIndexOfAFolderThatJustChanged) {
  opened(tiny());
  EXPECT_FALSE(fs::exists(index_of(tiny())));
}

TEST_F(FolderIndex, ADamagedIndexIsNotUsed) {
  age(tiny());
  const std::string before = opened(tiny())->info().content_hash;
  const std::string good = get(index_of(tiny()));
  for (std::size_t at = 0; at < good.size(); at += 131) {
    std::string bad = good;
    bad[at] ^= 4;
    put(index_of(tiny()), bad);
    EXPECT_FALSE(read_index(tiny())) << "byte " << at;
    put(index_of(tiny()), good.substr(0, at));
    EXPECT_FALSE(read_index(tiny())) << at << " bytes";
  }
  EXPECT_EQ(opened(tiny())->info().content_hash, before);
}

// The storage may have returned wrong bytes, or a copy was incomplete.
TEST_F(FolderIndex, AnEmptyFileThatIsRestoredInPlace_IsUsed) {
  const fs::path path = tiny() / "train/n00000000/images/n00000000_0.JPEG";
  const std::string good = get(path);
  put(path, "");
  age(tiny());
  refused(tiny(), "n00000000_0.JPEG is empty");
  refused(tiny(), "n00000000_0.JPEG is empty");
  put(path, good);
  const auto dataset = opened(tiny());
  ASSERT_TRUE(dataset);
  EXPECT_TRUE(read(*dataset, Split::kTrain, 0));
  ASSERT_TRUE(read_index(tiny())) << "the next start looks at every file again";
}

TEST_F(FolderIndex, WithSkipping_AnEmptyFileIsInTheIndex) {
  put(tiny() / "train/n00000000/images/n00000000_0.JPEG", "");
  age(tiny());
  opened(tiny(), true);
  EXPECT_TRUE(read_index(tiny())) << "the next start looks at every file again";
}

TEST_F(FolderIndex, AFileThatIsOverwrittenInPlace_StopsTheRun_AndANewRunTakesIt) {
  age(tiny());
  const fs::path path = tiny() / "train/n00000000/images/n00000000_0.JPEG";
  const std::string before = opened(tiny())->info().content_hash, good = get(path),
                    other = get(tiny() / "train/n00000001/images/n00000001_0.JPEG");
  ASSERT_NE(good.size(), other.size());
  put(path, other);
  const auto running = opened(tiny()), another = opened(tiny());
  EXPECT_EQ(running->info().content_hash, before);
  refused(read_of(*running, path), "start a new run with the changed data");
  refused(read_of(*another, path), "start a new run with the changed data");
  {
    const auto fresh = opened(tiny());
    EXPECT_NE(fresh->info().content_hash, before);
    EXPECT_EQ(fresh->info().earlier_hash, before);
    EXPECT_EQ(read(*fresh, Split::kTrain, 0)->images, read(*fresh, Split::kTrain, 4)->images);
  }
  EXPECT_TRUE(read_index(tiny())) << "the next start looks at every file again";
  put(path, good);
  EXPECT_FALSE(read(*opened(tiny()), Split::kTrain, 0));
  EXPECT_EQ(opened(tiny())->info().content_hash, before) << "the restored file is the run's again";
}

TEST_F(FolderIndex, ADamagedFileThatIsRestoredInPlace_IsUsedByTheNextRun) {
  const fs::path path = tiny() / "train/n00000000/images/n00000000_0.JPEG";
  const std::string good = get(path);
  put(path, good.substr(0, good.size() / 2));
  age(tiny());
  refused(read_of(*opened(tiny()), path), "is a damaged JPEG file");
  put(path, good);
  EXPECT_TRUE(read(*opened(tiny()), Split::kTrain, 0));
}

TEST_F(FolderIndex, AFileThatIsTruncatedInPlace_IsSkippedByANewRun) {
  age(tiny());
  opened(tiny(), true);
  const fs::path path = tiny() / "train/n00000000/images/n00000000_0.JPEG";
  fs::resize_file(path, fs::file_size(path) / 2);
  EXPECT_FALSE(read(*opened(tiny(), true), Split::kTrain, 0));
  const auto fresh = opened(tiny(), true);
  EXPECT_TRUE(read(*fresh, Split::kTrain, 0));
  EXPECT_EQ(fresh->take_skipped().size(), 1U);
}

// Its classes would be another user's choice.
TEST_F(FolderIndex, OfAnotherUser_IsIgnored_ExceptOfTheOwnerOfTheData) {
  if (::geteuid() != 0) REKINDLE_SKIP(Needs::kRoot, "another owner needs root");
  age(tiny());
  opened(tiny());
  ASSERT_EQ(::chown(index_of(tiny()).c_str(), 12345, 12345), 0);
  EXPECT_FALSE(read_index(tiny()));
  ASSERT_EQ(::chown(tiny().c_str(), 12345, 12345), 0);
  EXPECT_TRUE(read_index(tiny()));
}

TEST_F(FolderIndex, WhatKilledWritersHaveLeft_IsRemovedAfterAnHour) {
  const std::string index = index_of(tiny()).string();
  for (const char* name : {".tmp.1.2", ".tmp.3.4", ".other"}) put(index + name, "part of an index");
  age(tiny());
  fs::last_write_time(index + ".tmp.3.4", fs::file_time_type::clock::now());
  for (const char* name : {".tmp.1.2", ".other"})
    fs::last_write_time(index + name, fs::file_time_type::clock::now() - std::chrono::hours(2));
  opened(tiny());
  EXPECT_TRUE(fs::exists(index));
  EXPECT_FALSE(fs::exists(index + ".tmp.1.2"));
  EXPECT_TRUE(fs::exists(index + ".tmp.3.4")) << "a process may still write it";
  EXPECT_TRUE(fs::exists(index + ".other")) << "another file";
}

TEST_F(FolderIndex, AnotherFormatIsNamed_WithoutReadingTheFolder) {
  age(tiny());
  const auto cifar = open_dataset("cifar10", tiny(), {});
  ASSERT_FALSE(cifar);
  refused(cifar.error(), "looks like one for --dataset image-folder");
  EXPECT_FALSE(fs::exists(index_of(tiny()))) << "a refused command has written";
}

}  // namespace
}  // namespace rekindle::data
