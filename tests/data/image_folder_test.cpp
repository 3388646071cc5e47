// Image folders: layouts, the index, changed and corrupt files, and files that are no images.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>

#include "base/text.hpp"
#include "data/folder_listing.hpp"
#include "data/folder_notes.hpp"
#include "support.hpp"

namespace rekindle::data {
namespace {

constexpr const char* kKind = "image-folder";

const TransformConfig kSmall{16, Augment::kOff};

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

TEST_F(ImageFolder, TinyImageNetsLayoutHasTheLabelsOfItsAnnotations) {
  const auto dataset = opened(tiny());
  EXPECT_EQ(dataset->info().train_count, 40U);
  EXPECT_EQ(dataset->info().test_count, 8U);
  EXPECT_EQ(dataset->info().classes, 10);
  EXPECT_EQ(dataset->info().class_names[3], "n00000003");
  std::multiset<std::int64_t> labels;
  for (std::size_t i = 0; i < 40; ++i) labels.insert(read(*dataset, Split::kTrain, i)->labels[0]);
  for (int label = 0; label < 10; ++label) EXPECT_EQ(labels.count(label), 4U);
  std::string list = get(tiny() / "val/val_annotations.txt");
  std::vector<std::int64_t> expected, found;
  for (std::size_t i = 0; i < 8; ++i) {
    expected.push_back(list[list.find('\t') + 9] - '0');
    list.erase(0, list.find('\n') + 1);
    found.push_back(read(*dataset, Split::kTest, i)->labels[0]);
  }
  std::ranges::sort(expected);
  EXPECT_EQ(found, expected);
}

TEST_F(ImageFolder, ImageNetsLayoutAndAPlainOne) {
  fill(at("net/train"), {"b", "a", "c"}, 4);
  fill(at("net/val"), {"a", "b", "c"}, 2);
  put(at("net/train/a/deep/x.PNG"), "x");
  const auto net = opened(at("net"));
  EXPECT_EQ(net->info().train_count, 13U);
  EXPECT_EQ(net->info().test_count, 6U);
  EXPECT_EQ(net->info().class_names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(read(*net, Split::kTrain, 12)->labels[0], 2);
  fill(at("plain"), {"x", "y"}, 30);
  put(at("plain/notes.txt"), "not an image");
  put(at("plain/x/notes.txt"), "not an image");
  const auto plain = opened(at("plain"));
  EXPECT_EQ(plain->info().train_count, 54U);
  EXPECT_EQ(plain->info().test_count, 6U);
  EXPECT_EQ(read(*plain, Split::kTest, 2)->labels[0], 0);
  EXPECT_EQ(read(*plain, Split::kTest, 3)->labels[0], 1);
}

TEST_F(ImageFolder, TheIdentityIsNamesAndSizes_NotTheirPlace) {
  const std::string before = opened(tiny())->info().content_hash;
  fs::copy(tiny(), at("copy"), fs::copy_options::recursive);
  EXPECT_EQ(opened(at("copy"))->info().content_hash, before);
  put(at("copy/train/n00000003/images/more.JPEG"), image());
  const std::string more = opened(at("copy"))->info().content_hash;
  EXPECT_NE(more, before);
  fs::rename(at("copy/train/n00000003/images/more.JPEG"), at("copy/train/n00000004/images/more.JPEG"));
  EXPECT_NE(opened(at("copy"))->info().content_hash, more);
}

TEST_F(ImageFolder, AnIndexIsUsedUntilAFolderChanges) {
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

TEST_F(ImageFolder, WhatChangedFirstIsNamed_ToLaterProcessesToo) {
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
  put(more, image() + "more");
  fs::last_write_time(folder, fs::last_write_time(folder) + std::chrono::seconds(7));
  const auto longer = opened(tiny())->info();
  EXPECT_EQ(longer.earlier_hash, second);
  EXPECT_EQ(longer.change, str("train/n00000000/images/more.JPEG has ", size + 4, " bytes, and had ", size));
  fs::remove(more);
  EXPECT_EQ(info().change, "train/n00000000/images/more.JPEG is gone");
}

TEST_F(ImageFolder, NoIndexOfAFolderThatJustChanged) {
  opened(tiny());
  EXPECT_FALSE(fs::exists(index_of(tiny())));
}

TEST_F(ImageFolder, ADamagedIndexIsNotUsed) {
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

TEST_F(ImageFolder, AChangedFileIsAnErrorThatNamesIt) {
  const fs::path changed = tiny() / "train/n00000000/images/n00000000_0.JPEG";
  const std::string good = get(changed);
  std::string other = good;
  other[other.size() / 2] ^= 1;
  {
    const auto dataset = opened(tiny());
    ASSERT_TRUE(read(*dataset, Split::kTrain, 0));
    put(changed, other);
    const auto again = read(*dataset, Split::kTrain, 0);
    ASSERT_FALSE(again);
    refused(again.error(), changed.string() + " has another content");
  }
  const auto later = opened(tiny());
  const auto again = read(*later, Split::kTrain, 0);
  ASSERT_FALSE(again) << "the hash was not kept for a later process";
  refused(again.error(), changed.string() + " has another content");
  put(changed, good);
  EXPECT_TRUE(read(*later, Split::kTrain, 0));
  put(changed, good + "x");
  refused(read(*later, Split::kTrain, 0).error(), changed.string());
  fs::remove(changed);
  refused(read(*later, Split::kTrain, 0).error(), changed.string());
}

TEST_F(ImageFolder, DamagedRecordsOfHashesAreNotUsed) {
  { read(*opened(tiny()), Split::kTrain, 0).value(); }
  std::string bytes = get(note_beside(tiny(), kHashesNote).path());
  ASSERT_EQ(bytes.size(), 64U);
  bytes[50] ^= 1;  // of the hash
  put(note_beside(tiny(), kHashesNote).path(), bytes);
  EXPECT_TRUE(read(*opened(tiny()), Split::kTrain, 0));
  put(note_beside(tiny(), kHashesNote).path(), "something else");
  EXPECT_TRUE(read(*opened(tiny()), Split::kTrain, 0));
}

TEST_F(ImageFolder, ACorruptImageIsAnError_OrTheNextReadableOneTakesItsPlace) {
  const fs::path folder = tiny() / "train/n00000000/images";
  const std::string good = get(folder / "n00000000_0.JPEG");
  put(folder / "n00000000_0.JPEG", good.substr(0, good.size() / 2));
  put(folder / "n00000000_1.JPEG", "");
  refused(tiny(), "n00000000_1.JPEG is empty");
  put(folder / "n00000000_1.JPEG", "<html>");
  const auto strict = opened(tiny());
  refused(read(*strict, Split::kTrain, 0).error(), "n00000000_0.JPEG is a damaged JPEG file");
  refused(read(*strict, Split::kTrain, 1).error(), "n00000000_1.JPEG is neither a JPEG nor a PNG file");
  const auto lenient = opened(tiny(), true);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(read(*lenient, Split::kTrain, 0)->images, read(*strict, Split::kTrain, 2)->images);
    EXPECT_EQ(read(*lenient, Split::kTrain, 1)->images, read(*strict, Split::kTrain, 2)->images);
  }
}

TEST_F(ImageFolder, TheLastImageIsReplacedByTheFirst_AndItsLabelToo) {
  put(tiny() / "train/n00000009/images/n00000009_3.JPEG", "x");
  const auto dataset = opened(tiny(), true);
  const auto last = read(*dataset, Split::kTrain, 39);
  ASSERT_TRUE(last) << last.error().line();
  EXPECT_EQ(last->labels[0], 0);
  EXPECT_EQ(last->images, read(*dataset, Split::kTrain, 0)->images);
}

TEST_F(ImageFolder, WrongFoldersAreRefused) {
  refused(at("nowhere"), "no such data directory");
  fs::create_directories(at("empty"));
  refused(at("empty"), "has no folders of images");
  fill(at("one"), {"only"}, 3);
  refused(at("one"), "has only one class, only");
  fill(at("hollow"), {"a", "b"}, 3);
  fs::create_directories(at("hollow/c"));
  refused(at("hollow"), "has no JPEG or PNG files");
  fill(at("lone/train"), {"a", "b"}, 3);
  refused(at("lone"), "has the folder train, but no val");
  fill(at("differ/train"), {"a", "b"}, 3);
  fill(at("differ/val"), {"a", "c"}, 3);
  refused(at("differ"), "has the class c in val but not in train");
  fs::rename(at("differ/val/c"), at("differ/val/b"));
  fill(at("differ/train"), {"d"}, 3);
  refused(at("differ"), "has the class d in train but not in val");
  fill(at("bmp"), {"a", "b"}, 3);
  put(at("bmp/a/x.bmp"), "x");
  refused(at("bmp"), "x.bmp is an image that is not JPEG or PNG");
  fill(at("utf"), {"a", "b"}, 3);
  put(at("utf/a/\xff.jpg"), image());
  refused(at("utf"), "not UTF-8");
  fill(at("loop"), {"a", "b"}, 3);
  fs::create_directory_symlink(at("loop/a"), at("loop/a/again"));
  refused(at("loop"), "more than 16 folders deep");
  fill(at("fifo"), {"a", "b"}, 3);
  ASSERT_EQ(::mkfifo(at("fifo/a/x.jpg").c_str(), 0600), 0);
  refused(at("fifo"), "x.jpg is not a regular file");
  put(tiny() / "val/val_annotations.txt", "val_0.JPEG\tn99\t0\n");
  refused(tiny(), "has the class n99, which train has not");
  put(tiny() / "val/val_annotations.txt", "val_0.JPEG\tn00000000\t0\n");
  refused(tiny(), "does not name the class of val_1.JPEG");
}

TEST_F(ImageFolder, LinksToFilesAndFoldersAreFollowed) {
  fill(at("real"), {"a", "b"}, 20);
  fs::create_directories(at("links"));
  fs::create_directory_symlink(at("real/a"), at("links/a"));
  fs::create_directories(at("links/b"));
  for (int i = 0; i < 20; ++i)
    fs::create_symlink(at("real/b/" + std::to_string(i) + ".jpg"),
                       at("links/b/" + std::to_string(i) + ".jpg"));
  EXPECT_EQ(opened(at("links"))->info().content_hash, opened(at("real"))->info().content_hash);
  fs::remove(at("real/b/3.jpg"));
  refused(at("links"), "3.jpg");
}

TEST_F(ImageFolder, AugmentationIsAFunctionOfTheKey) {
  const auto dataset = opened(tiny());
  const TransformConfig config{32, Augment::kResizedCrop};
  EXPECT_EQ(read(*dataset, Split::kTrain, 0, config, 5)->images,
            read(*dataset, Split::kTrain, 0, config, 5)->images);
  EXPECT_NE(read(*dataset, Split::kTrain, 0, config, 5)->images,
            read(*dataset, Split::kTrain, 0, config, 6)->images);
}

}  // namespace
}  // namespace rekindle::data
