// Image folders: layouts, changed and corrupt files, and files that are no images.
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "base/text.hpp"
#include "data/folder_listing.hpp"
#include "data/folder_notes.hpp"
#include "image_folder_fixture.hpp"

namespace rekindle::data {
namespace {

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

// As scripts do that make it readable for torchvision; some let the annotations lie.
TEST_F(ImageFolder, TinyImageNetWithASortedVal_HasTheLabelsOfItsFolders) {
  const auto before = opened(tiny());
  fs::copy(tiny(), at("sorted"), fs::copy_options::recursive);
  const fs::path val = at("sorted/val");
  std::istringstream list(get(val / "val_annotations.txt"));
  for (std::string file, label, rest; list >> file >> label && std::getline(list, rest);) {
    fs::create_directories(val / label);
    fs::rename(val / "images" / file, val / label / file);
  }
  fs::remove(val / "images");
  for (int i = 0; i < 10; ++i) {  // the made data set is small: not each class has a test image
    const fs::path folder = val / str("n0000000", i);
    fs::create_directories(folder);
    if (fs::is_empty(folder)) put(folder / "more.JPEG", image());
  }
  const auto sorted = opened(at("sorted"));
  EXPECT_EQ(sorted->info().class_names, before->info().class_names);
  EXPECT_GE(sorted->info().test_count, 10U);
  for (std::size_t i = 1; i < sorted->info().test_count; ++i)
    EXPECT_GE(read(*sorted, Split::kTest, i)->labels[0], read(*sorted, Split::kTest, i - 1)->labels[0]);
}

// What the script does that most people copy: the folders are in val/images, and the annotations stay.
TEST_F(ImageFolder, TinyImageNetSortedWithinImages_HasTheLabelsOfItsFolders) {
  const auto before = opened(tiny());
  fs::copy(tiny(), at("sorted"), fs::copy_options::recursive);
  const fs::path images = at("sorted/val/images");
  std::istringstream list(get(at("sorted/val/val_annotations.txt")));
  for (const std::string& name : before->info().class_names) fs::create_directories(images / name);
  for (std::string file, label, rest; list >> file >> label && std::getline(list, rest);)
    fs::rename(images / file, images / label / file);
  const auto sorted = opened(at("sorted"));
  EXPECT_EQ(sorted->info().class_names, before->info().class_names);
  EXPECT_EQ(sorted->info().test_count, before->info().test_count) << "a class may have no test images";
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

TEST_F(ImageFolder, NoImageOfASplitCanBeDecoded_TheSamplesAreUnusable) {
  for (const auto& file : fs::directory_iterator(tiny() / "val/images"))
    put(file.path(), std::string(fs::file_size(file), 'x'));
  const auto dataset = opened(tiny(), true);
  EXPECT_TRUE(read(*dataset, Split::kTrain, 0));
  const auto none = read(*dataset, Split::kTest, 3);
  ASSERT_FALSE(none);
  refused(none.error(), "no test image in " + tiny().string() + " can be decoded");
  EXPECT_EQ(none.error().kind, ErrorKind::kDamage);
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
  const std::string annotations = get(tiny() / "val/val_annotations.txt");
  put(tiny() / "val/val_annotations.txt", "val_0.JPEG\tn99\t0\n");
  refused(tiny(), "has the class n99, which train has not");
  put(tiny() / "val/val_annotations.txt", "val_0.JPEG\tn00000000\t0\n");
  refused(tiny(), "does not name the class of val_1.JPEG");
  put(tiny() / "val/val_annotations.txt", annotations + "val_3.JPEG\tn00000000\t0\n");
  refused(tiny(), "names val_3.JPEG twice");
  put(tiny() / "val/val_annotations.txt", annotations);
  fs::remove(tiny() / "val/images/val_6.JPEG");
  fs::remove(tiny() / "val/images/val_5.JPEG");
  refused(tiny(), "val/images/val_5.JPEG is missing, one of 2 such images that");
}

TEST_F(ImageFolder, AFolderInPlaceOfAnImage_IsAnErrorAtOnce) {
  const fs::path path = tiny() / "train/n00000000/images/n00000000_0.JPEG";
  const auto dataset = opened(tiny());
  fs::remove(path);
  fs::create_directory(path);
  const auto sample = read(*dataset, Split::kTrain, 0);
  ASSERT_FALSE(sample);
  refused(sample.error(), path.string() + " is a folder");
  EXPECT_EQ(sample.error().kind, ErrorKind::kChangedData);
}

TEST_F(ImageFolder, FoldersWithNamesOfSplits_AreNoClasses) {
  for (const auto& [first, second] :
       {std::pair("Train", "Val"), {"training", "validation"}, {"test_set", "training-set"}}) {
    const fs::path folder = at(str("data-", first));
    fill(folder / first, {"a", "b"}, 4);
    fill(folder / second, {"a", "b"}, 4);
    refused(folder, str("has the folders ", first, " and ", second, ", which look like splits"));
  }
  fill(at("vehicles"), {"Train", "Tram"}, 20);
  EXPECT_EQ(opened(at("vehicles"))->info().classes, 2);
}

TEST_F(ImageFolder, TheFolderAboveTheUnpackedOne_IsRead) {
  const std::string hash = opened(tiny())->info().content_hash;
  fs::create_directories(at("above/.hidden"));
  fs::rename(tiny(), at("above/tiny"));
  const auto above = opened(at("above"));
  ASSERT_TRUE(above);
  EXPECT_EQ(above->info().content_hash, hash);
  EXPECT_TRUE(read(*above, Split::kTrain, 0));
  EXPECT_TRUE(fs::exists(note_beside(at("above/tiny"), kHashesNote).path()));
}

TEST_F(ImageFolder, HiddenFilesAndFolders_AreNotRead) {
  const std::string before = opened(tiny())->info().content_hash;
  put(tiny() / "train/n00000000/images/._n00000000_0.JPEG", "of another system");
  put(tiny() / "train/n00000001/.thumbnails/small.JPEG", image());
  EXPECT_EQ(opened(tiny())->info().content_hash, before);
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
