#include <functional>

#include "support.hpp"

namespace rekindle::data {
namespace {

// Opening `folder` must give an error of the data, with `word` and a hint in a single line.
void expect_refused(const std::string& kind, const fs::path& folder, const std::string& word) {
  const auto dataset = open_dataset(kind, folder, {});
  ASSERT_FALSE(dataset) << "opened although: " << word;
  const Error& error = dataset.error();
  EXPECT_EQ(error.code, ExitCode::kConfig) << error.line();
  EXPECT_NE(error.line().find(word), std::string::npos) << error.line() << "\nhas no: " << word;
  EXPECT_NE(error.line().find(folder.string()), std::string::npos) << error.line();
  EXPECT_FALSE(error.hint.empty()) << error.line();
  EXPECT_EQ(error.line().find('\n'), std::string::npos);
}

// A fault in a data set, and the words that the error must contain.
struct Fault {
  const char* name;
  const char* says;
  std::function<void(const fs::path&)> inflict;
};

void change(const fs::path& path, const std::function<void(std::string&)>& edit) {
  std::string bytes = get(path);
  edit(bytes);
  put(path, bytes);
}

class BadCifar : public testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(
    Faults, BadCifar,
    testing::Values(
        Fault{"TruncatedBatch", "data_batch_2.bin has",
              [](auto& d) { change(d / "data_batch_2.bin", [](auto& b) { b.pop_back(); }); }},
        Fault{"LongBatch", "test_batch.bin has",
              [](auto& d) { change(d / "test_batch.bin", [](auto& b) { b += "x"; }); }},
        Fault{"EmptyBatch", "data_batch_5.bin is empty", [](auto& d) { put(d / "data_batch_5.bin", ""); }},
        Fault{"EmptyTest", "test_batch.bin is empty", [](auto& d) { put(d / "test_batch.bin", ""); }},
        Fault{"LabelOverNine", "record 1 has label 10",
              [](auto& d) { change(d / "data_batch_3.bin", [](auto& b) { b[3073] = 10; }); }},
        Fault{"TestLabelOverNine", "label 255",
              [](auto& d) { change(d / "test_batch.bin", [](auto& b) { b[0] = '\xff'; }); }},
        Fault{"GapInTheBatches", "missing", [](auto& d) { fs::remove(d / "data_batch_3.bin"); }},
        Fault{"NoFirstBatch", "data_batch_1.bin", [](auto& d) { fs::remove(d / "data_batch_1.bin"); }},
        Fault{"NoTestBatch", "test_batch.bin", [](auto& d) { fs::remove(d / "test_batch.bin"); }},
        Fault{"FolderForAFile", "is a directory",
              [](auto& d) {
                fs::remove(d / "test_batch.bin");
                fs::create_directory(d / "test_batch.bin");
              }},
        Fault{"TooFewNames", "names 2 classes", [](auto& d) { put(d / "batches.meta.txt", "cat\ndog\n"); }}),
    [](const auto& info) { return info.param.name; });

TEST_P(BadCifar, IsRefusedWithAClearLine) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("cifar10", scratch.path, 10, 1));
  ASSERT_TRUE(open_dataset("cifar10", scratch.path, {}));
  GetParam().inflict(scratch.path);
  expect_refused("cifar10", scratch.path, GetParam().says);
}

const char* const kTrainImages = "train-images-idx3-ubyte";
const char* const kTrainLabels = "train-labels-idx1-ubyte";
const char* const kTestImages = "t10k-images-idx3-ubyte";
const char* const kTestLabels = "t10k-labels-idx1-ubyte";

void pack(const fs::path& path) {
  put(path.string() + ".gz", gzipped(get(path)));
  fs::remove(path);
}

void damage_packed(const fs::path& path, const std::function<void(std::string&)>& edit) {
  pack(path);
  change(path.string() + ".gz", edit);
}

class BadMnist : public testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(
    Faults, BadMnist,
    testing::Values(
        Fault{"TruncatedImages", "truncated",
              [](auto& d) { change(d / kTrainImages, [](auto& b) { b.pop_back(); }); }},
        Fault{"TruncatedHeader", "inside its IDX header",
              [](auto& d) { change(d / kTestImages, [](auto& b) { b.resize(9); }); }},
        Fault{"EmptyFile", "too short", [](auto& d) { put(d / kTrainLabels, ""); }},
        Fault{"TrailingBytes", "bytes after its end",
              [](auto& d) { change(d / kTestLabels, [](auto& b) { b += "x"; }); }},
        Fault{"WrongMagic", "no IDX file",
              [](auto& d) { change(d / kTrainImages, [](auto& b) { b[3] = 7; }); }},
        Fault{"LabelsAsImages", "holds IDX labels where IDX images",
              [](auto& d) {
                fs::copy_file(d / kTrainLabels, d / kTrainImages, fs::copy_options::overwrite_existing);
              }},
        Fault{"ImagesAsLabels", "wrong name",
              [](auto& d) {
                fs::copy_file(d / kTestImages, d / kTestLabels, fs::copy_options::overwrite_existing);
              }},
        Fault{"CountsDiffer", "has 12 images, but",
              [](auto& d) {
                fs::copy_file(d / kTestLabels, d / kTrainLabels, fs::copy_options::overwrite_existing);
              }},
        Fault{"LabelOverNine", "label 4 is 10",
              [](auto& d) { change(d / kTrainLabels, [](auto& b) { b[8 + 4] = 10; }); }},
        Fault{"OtherSize", "27x28", [](auto& d) { change(d / kTrainImages, [](auto& b) { b[11] = 27; }); }},
        Fault{"HugeCount", "truncated",
              [](auto& d) { change(d / kTrainImages, [](auto& b) { b[4] = b[5] = '\xff'; }); }},
        Fault{"NoItems", "no items", [](auto& d) { change(d / kTrainLabels, [](auto& b) { b[7] = 0; }); }},
        Fault{"NoTestLabels", "t10k-labels-idx1-ubyte (or .gz)",
              [](auto& d) { fs::remove(d / kTestLabels); }},
        Fault{"NoImages", "train-images-idx3-ubyte (or .gz)", [](auto& d) { fs::remove(d / kTrainImages); }},
        Fault{"GzipTruncated", "ends in the middle",
              [](auto& d) { damage_packed(d / kTrainImages, [](auto& b) { b.resize(b.size() / 2); }); }},
        Fault{"GzipWithoutChecksum", "ends in the middle",
              [](auto& d) { damage_packed(d / kTrainLabels, [](auto& b) { b.resize(b.size() - 8); }); }},
        Fault{"GzipWrongChecksum", "not a valid gzip",
              [](auto& d) { damage_packed(d / kTrainLabels, [](auto& b) { b[b.size() - 8] ^= 1; }); }},
        Fault{"GzipGarbageAfter", "not a valid gzip",
              [](auto& d) { damage_packed(d / kTrainLabels, [](auto& b) { b += "garbage"; }); }},
        Fault{"GzipIsNone", "not a valid gzip",
              [](auto& d) { damage_packed(d / kTestImages, [](auto& b) { b = "<html>not found</html>"; }); }},
        Fault{"GzipEmpty", "ends in the middle",
              [](auto& d) { damage_packed(d / kTestImages, [](auto& b) { b.clear(); }); }},
        Fault{"PackedTruncatedImages", "truncated",
              [](auto& d) {
                change(d / kTrainImages, [](auto& b) { b.pop_back(); });
                pack(d / kTrainImages);
              }}),
    [](const auto& info) { return info.param.name; });

TEST_P(BadMnist, IsRefusedWithAClearLine) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("mnist", scratch.path, 12, 1));
  ASSERT_TRUE(open_dataset("mnist", scratch.path, {}));
  GetParam().inflict(scratch.path);
  expect_refused("mnist", scratch.path, GetParam().says);
}

TEST(OpenDataset, NoSuchFolderIsSaidWithAWayOut) {
  const Scratch scratch;
  for (const char* kind : {"cifar10", "cifar100", "mnist", "fashion-mnist"}) {
    expect_refused(kind, scratch.path / "nowhere", "no such data directory");
    expect_refused(kind, scratch.path, "missing");
  }
  put(scratch.path / "file", "x");
  expect_refused("mnist", scratch.path / "file", "is not a directory");
  const auto archive = open_dataset("mnist", scratch.path / "file", {});
  ASSERT_FALSE(archive);
  EXPECT_EQ(archive.error().hint, "set --data to a folder with mnist files; unpack an archive")
      << "make-data would write into it";
}

TEST(OpenDataset, ADamagedFile_IsNotTakenForOneOfAnotherFormat) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("mnist", scratch.path, 12, 1));
  change(scratch.path / kTrainImages, [](auto& bytes) { bytes.pop_back(); });
  const auto damaged = open_dataset("mnist", scratch.path, {});
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().line().find("looks like"), std::string::npos) << damaged.error().line();
}

TEST(OpenDataset, AnUnknownKindNamesTheNearest) {
  const auto dataset = open_dataset("minst", "/", {});
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().code, ExitCode::kUsage);
  EXPECT_NE(dataset.error().line().find("did you mean mnist?"), std::string::npos);
}

TEST(OpenDataset, CifarRecordsAreReadAsWritten) {
  const Scratch scratch;
  const auto record = [](char label, char first, char last) {
    return std::string(1, label) + first + std::string(3070, 'm') + last;
  };
  put(scratch.path / "cifar-10-batches-bin" / "data_batch_1.bin", record(3, 'a', 'b') + record(9, 'c', 'd'));
  put(scratch.path / "cifar-10-batches-bin" / "data_batch_2.bin", record(0, 'e', 'f'));
  put(scratch.path / "cifar-10-batches-bin" / "test_batch.bin", record(7, 'g', '\xff'));
  const auto opened = open_dataset("cifar10", scratch.path, {});
  ASSERT_TRUE(opened) << opened.error().line();
  const MemoryImages& dataset = raw(**opened);
  EXPECT_EQ(dataset.info().train_count, 3U);
  EXPECT_EQ(dataset.info().test_count, 1U);
  EXPECT_EQ(dataset.info().class_names[3], "cat");  // without batches.meta.txt: CIFAR-10's own names
  EXPECT_EQ(dataset.label(Split::kTrain, 1), 9);
  EXPECT_EQ(dataset.image(Split::kTrain, 1).pixels.front(), 'c');
  EXPECT_EQ(dataset.image(Split::kTrain, 2).pixels.back(), 'f');
  EXPECT_EQ(dataset.label(Split::kTest, 0), 7);
  EXPECT_EQ(dataset.image(Split::kTest, 0).pixels.back(), 255);
  EXPECT_EQ(dataset.image(Split::kTest, 0).pixels.size(), 3072U);
}

TEST(OpenDataset, ClassNamesComeFromTheFileThatPeopleHave) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("cifar10", scratch.path, 5, 1));
  put(scratch.path / "batches.meta.txt", "a\r\nb\nc\nd\ne\nf\ng\nh\ni\nlorry\n\n");
  EXPECT_EQ(open_dataset("cifar10", scratch.path, {}).value()->info().class_names[9], "lorry");
  EXPECT_EQ(open_dataset("cifar10", scratch.path, {}).value()->info().class_names[0], "a");
}

TEST(OpenDataset, MnistIsFoundPlainOrPackedWhereverTorchvisionPutsIt) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("mnist", scratch.path / "plain", 30, 1));
  const std::string expected = open_dataset("mnist", scratch.path / "plain", {}).value()->info().content_hash;
  ASSERT_TRUE(make_data("fashion-mnist", scratch.path / "c/FashionMNIST/raw", 30, 1));
  const auto fashion = open_dataset("fashion-mnist", scratch.path / "c", {});
  ASSERT_TRUE(fashion) << fashion.error().line();
  EXPECT_EQ((*fashion)->info().class_names[9], "Ankle boot");
  for (const char* place : {"here", "a/MNIST/raw", "b/raw"}) {
    for (const char* name : {kTrainImages, kTrainLabels, kTestImages, kTestLabels}) {
      put(scratch.path / place / (std::string(name) + ".gz"), gzipped(get(scratch.path / "plain" / name)));
    }
  }
  for (const char* root : {"here", "a", "b"}) {
    const auto dataset = open_dataset("mnist", scratch.path / root, {});
    ASSERT_TRUE(dataset) << dataset.error().line();
    EXPECT_EQ((*dataset)->info().content_hash, expected);
  }
}

TEST(OpenDataset, AGzipFileOfSeveralMembersIsReadWhole) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("mnist", scratch.path, 30, 1));
  const std::string expected = open_dataset("mnist", scratch.path, {}).value()->info().content_hash;
  const std::string bytes = get(scratch.path / kTrainImages);
  put(scratch.path / (std::string(kTrainImages) + ".gz"),
      gzipped(bytes.substr(0, 1000)) + gzipped(bytes.substr(1000)));
  fs::remove(scratch.path / kTrainImages);
  EXPECT_EQ(open_dataset("mnist", scratch.path, {}).value()->info().content_hash, expected);
}

// The header promises more images than this small file can contain.
TEST(OpenDataset, AGzipFileThatWouldTakeMuchMemory_IsRefusedByItsHeader) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("mnist", scratch.path, 12, 1));
  std::string images = get(scratch.path / kTrainImages).substr(0, 16);
  images[4] = 0x10;  // 268 million images: 210 GB
  put(scratch.path / (std::string(kTrainImages) + ".gz"), gzipped(images + std::string(1 << 20, '\0')));
  fs::remove(scratch.path / kTrainImages);
  expect_refused("mnist", scratch.path, "cannot hold more than");
}

TEST(OpenDataset, AGzipFileOfMoreThanItsHeaderPromises_IsNotUnpackedFurther) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("mnist", scratch.path, 12, 1));
  const std::string images = get(scratch.path / kTrainImages);
  put(scratch.path / (std::string(kTrainImages) + ".gz"), gzipped(images + std::string(1 << 20, '\0')));
  fs::remove(scratch.path / kTrainImages);
  expect_refused("mnist", scratch.path, "has more than 9424 bytes, but its header requires 9424");
}

TEST(OpenDataset, TheHashSeesEveryPixelAndLabel) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("cifar10", scratch.path, 5, 1));
  const auto hash = [&] { return open_dataset("cifar10", scratch.path, {}).value()->info().content_hash; };
  const std::string before = hash();
  change(scratch.path / "test_batch.bin", [](auto& b) { b.back() ^= 1; });
  const std::string pixel = hash();
  change(scratch.path / "data_batch_2.bin", [](auto& b) { b[0] = static_cast<char>((b[0] + 1) % 10); });
  EXPECT_NE(pixel, before);
  EXPECT_NE(hash(), pixel);
}

}  // namespace
}  // namespace rekindle::data
