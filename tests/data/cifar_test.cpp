// The versions of CIFAR-10 and CIFAR-100: binary, Python, and their archives.
#include <gmock/gmock.h>

#include <functional>

#include "pickle_writer.hpp"
#include "support.hpp"
#include "tar_writer.hpp"

namespace rekindle::data {
namespace {

constexpr std::size_t kPixels = 3072;

struct Version {
  const char* kind;
  const char *binary_folder, *python_folder, *binary_archive, *python_archive;
  std::size_t label_bytes;
  std::vector<std::pair<const char*, const char*>> files;  // binary and Python
  const char* labels_key;
};

const Version kTen = {"cifar10",
                      "cifar-10-batches-bin",
                      "cifar-10-batches-py",
                      "cifar-10-binary.tar.gz",
                      "cifar-10-python.tar.gz",
                      1,
                      {{"data_batch_1.bin", "data_batch_1"},
                       {"data_batch_2.bin", "data_batch_2"},
                       {"data_batch_3.bin", "data_batch_3"},
                       {"data_batch_4.bin", "data_batch_4"},
                       {"data_batch_5.bin", "data_batch_5"},
                       {"test_batch.bin", "test_batch"}},
                      "labels"};
const Version kHundred = {"cifar100",
                          "cifar-100-binary",
                          "cifar-100-python",
                          "cifar-100-binary.tar.gz",
                          "cifar-100-python.tar.gz",
                          2,
                          {{"train.bin", "train"}, {"test.bin", "test"}},
                          "fine_labels"};

std::string pickled(const std::string& records, const Version& version) {
  std::vector<std::uint8_t> labels;
  std::string pixels;
  for (std::size_t at = 0; at < records.size(); at += version.label_bytes + kPixels) {
    labels.push_back(static_cast<std::uint8_t>(records[at + version.label_bytes - 1]));
    pixels += records.substr(at + version.label_bytes, kPixels);
  }
  return pickled_batch(version.labels_key, labels, pixels);
}

class Cifar : public testing::TestWithParam<const Version*> {
 protected:
  void SetUp() override { ASSERT_TRUE(make_data(GetParam()->kind, binary(), 23, 1)); }
  fs::path binary() const { return scratch_.path / "made"; }
  void write_python(const fs::path& folder) const {
    for (const auto& [from, to] : GetParam()->files)
      put(folder / to, pickled(get(binary() / from), *GetParam()));
  }
  Tar archive(const fs::path& from, const std::string& folder) const {
    Tar tar;
    tar.add(folder + "/", "", '5');
    for (const auto& entry : fs::directory_iterator(from))
      tar.add(folder + "/" + entry.path().filename().string(), get(entry.path()));
    return tar;
  }
  std::string hash_of(const fs::path& path) const {
    const auto dataset = open_dataset(GetParam()->kind, path, {});
    EXPECT_TRUE(dataset) << dataset.error().line();
    return dataset ? (*dataset)->info().content_hash : "";
  }
  void refused(const fs::path& path, const std::string& word) const {
    const auto dataset = open_dataset(GetParam()->kind, path, {});
    ASSERT_FALSE(dataset) << "opened although: " << word;
    const Error& error = dataset.error();
    EXPECT_EQ(error.code, ExitCode::kConfig);
    EXPECT_NE(error.line().find(word), std::string::npos) << error.line() << "\nhas no: " << word;
    EXPECT_NE(error.line().find(scratch_.path.string()), std::string::npos) << error.line();
    EXPECT_FALSE(error.hint.empty()) << error.line();
    EXPECT_EQ(error.line().find('\n'), std::string::npos);
  }
  Scratch scratch_;
};
INSTANTIATE_TEST_SUITE_P(Versions, Cifar, testing::Values(&kTen, &kHundred),
                         [](const auto& info) { return info.param->kind; });

TEST_P(Cifar, EveryVersionAndPlaceHasTheSameImages) {
  const Version& version = *GetParam();
  const std::string expected = hash_of(binary());
  EXPECT_EQ(open_dataset(version.kind, binary(), {}).value()->info().train_count, 23U);
  fs::create_directories(scratch_.path / "inside");
  fs::copy(binary(), scratch_.path / "inside" / version.binary_folder);
  EXPECT_EQ(hash_of(scratch_.path / "inside"), expected);
  write_python(scratch_.path / "py" / version.python_folder);
  EXPECT_EQ(hash_of(scratch_.path / "py"), expected);
  EXPECT_EQ(hash_of(scratch_.path / "py" / version.python_folder), expected);
  const fs::path archives = scratch_.path / "archives";
  put(archives / "b" / version.binary_archive, gzipped(archive(binary(), version.binary_folder).finished()));
  put(archives / "p" / version.python_archive,
      gzipped(archive(scratch_.path / "py" / version.python_folder, version.python_folder).finished()));
  EXPECT_EQ(hash_of(archives / "b"), expected);
  EXPECT_EQ(hash_of(archives / "p"), expected);
  EXPECT_EQ(hash_of(archives / "p" / version.python_archive), expected);
  fs::copy(archives / "p" / version.python_archive, archives / "renamed.tgz");
  EXPECT_EQ(hash_of(archives / "renamed.tgz"), expected);
}

TEST_P(Cifar, APickleIsNeverExecuted) {
  const fs::path folder = scratch_.path / "py";
  const auto with = [&](const std::string& bytes, const std::string& word) {
    write_python(folder);
    put(folder / GetParam()->files[0].second, bytes);
    refused(folder, word);
  };
  const std::string good = pickled(get(binary() / GetParam()->files[0].first), *GetParam());
  with(
      "\x80\x02"
      "cposix\nsystem\nU\x04true\x85R.",
      "would call posix.system");
  with(
      "\x80\x02"
      "cnumpy\nndarray\nU\x01x\x85R.",
      "would call numpy.ndarray");
  with(
      "\x80\x02"
      "cbuiltins\neval\n.",
      "would call builtins.eval");
  with(
      "\x80\x02"
      "i__builtin__\neval\n.",
      "has the opcode i");
  with("\x80\x04\x95.", "protocol 4");
  with("(dp0\n.", "has the opcode d");
  with("\x80\x02]q\x01.", "something else than a dictionary");
  with(
      "\x80\x02}q\x01(U\x04"
      "dataK\x01u.",
      "'data' is missing or is not an array");
  with("\x80\x02}.", "'data' is missing");
  with("\x80\x02h\x05.", "uses a value before it is there");
  with("\x80\x02u.", "without a mark");
  with("\x80\x02R.", "stack is empty");
  with(std::string("\x80\x02T\xff\xff\xff\x7f"
                   "a",
                   8),
       "ends in the middle");
  with("", "is empty");
  for (const std::size_t left : {good.size() / 2, good.size() - 1, std::size_t{30}})
    with(good.substr(0, left), "ends in the middle of its pickle");
  with(std::string("\x80\x02", 2) + std::string(1'100'000, 'N'), "too many values");
  with(std::string("\x80\x02", 2) + std::string(1'100'000, '('), "too many values");
  std::string again = "\x80\x02Nq\x01";
  for (int i = 0; i < 1'100'000; ++i) again += "h\x01";
  with(again, "too many values");
}

TEST_P(Cifar, WrongLabelsAndCountsOfAPickleAreRefused) {
  const fs::path folder = scratch_.path / "py";
  const auto with = [&](const std::vector<std::uint8_t>& labels, std::size_t pixels,
                        const std::string& word) {
    write_python(folder);
    put(folder / GetParam()->files[0].second,
        pickled_batch(GetParam()->labels_key, labels, std::string(pixels, 'x')));
    refused(folder, word);
  };
  with({1, 2, 255}, 3 * kPixels, "record 2 has label 255");
  with({1, 2}, 3 * kPixels, "2 labels");
  with({1, 2, 3}, 2 * kPixels, "3 labels");
  with({1}, 3071, "shape");
}

TEST_P(Cifar, AnArrayInFortransOrderIsReadByColumns) {
  const fs::path folder = scratch_.path / "py";
  const std::string expected = hash_of(binary());
  write_python(folder);
  const auto& [from, to] = GetParam()->files.back();
  const std::string records = get(binary() / from);
  const std::size_t size = GetParam()->label_bytes + kPixels, count = records.size() / size;
  std::string columns;
  std::vector<std::uint8_t> labels;
  for (std::size_t r = 0; r < count; ++r)
    labels.push_back(static_cast<std::uint8_t>(records[r * size + GetParam()->label_bytes - 1]));
  for (std::size_t p = 0; p < kPixels; ++p)
    for (std::size_t r = 0; r < count; ++r) columns += records[r * size + GetParam()->label_bytes + p];
  put(folder / to, pickled_batch(GetParam()->labels_key, labels, columns, true));
  EXPECT_EQ(hash_of(folder), expected);
}

TEST_P(Cifar, ABadArchiveIsRefused) {
  const Version& version = *GetParam();
  const fs::path path = scratch_.path / version.binary_archive;
  const auto with = [&](const std::string& tar, const std::string& word) {
    put(path, gzipped(tar));
    refused(path, word);
  };
  const Tar good = archive(binary(), version.binary_folder);
  const auto plus = [&](const std::string& name, const std::string& bytes, char type) {
    Tar tar = good;
    tar.add(name, bytes, type);
    return tar.finished();
  };
  with(plus("../../etc/cron.d/x", "x", '0'), "outside of the archive, ../../etc/cron.d/x");
  with(plus("/etc/passwd", "x", '0'), "outside of the archive");
  with(plus("a/../../b", "x", '0'), "outside of the archive");
  with(plus("link", "", '2'), "is a link or a device");
  with(plus("link", "", '1'), "is a link or a device");
  with(plus("device", "", '4'), "is a link or a device");
  with(plus(std::string(version.binary_folder) + "/" + version.files[0].first, "x", '0'), "twice");
  with(plus("bomb", std::string(80 << 20, '\0'), '0'), "would unpack to more than");
  with(good.unfinished(), "ends in the middle of its tar data");
  with(good.finished().substr(0, 5000), "ends in the middle of its tar data");
  std::string damaged = good.finished();
  damaged[3] ^= 1;
  with(damaged, "damaged tar header");
  with(Tar().finished(), "missing");
  with("", "ends in the middle of its tar data");
  const std::string packed = gzipped(good.finished());
  put(path, packed.substr(0, packed.size() / 2));
  refused(path, "ends in the middle of its gzip data");
  put(path, "<html>not found</html>");
  refused(path, "not a valid gzip file");
}

// A copy that was interrupted: a run would train with a fifth of the images.
TEST(Cifar10, WholeFilesWithoutTheOthers_AreRefused) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("cifar10", scratch.path, 50'000, 1));
  fs::remove(scratch.path / "data_batch_5.bin");
  fs::remove(scratch.path / "data_batch_4.bin");
  const auto opened = open_dataset("cifar10", scratch.path, {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ExitCode::kConfig);
  EXPECT_THAT(opened.error().line(),
              testing::HasSubstr("missing " + (scratch.path / "data_batch_4.bin").string()));
}

TEST(Cifar100, TheFineLabelIsReadAndTheCoarseOneIgnored) {
  const Scratch scratch;
  const auto record = [](char coarse, char fine) {
    return std::string{coarse, fine} + std::string(3072, 'm');
  };
  put(scratch.path / "train.bin", record(19, 99) + record(0, 42));
  put(scratch.path / "test.bin", record(1, 0));
  const auto opened = open_dataset("cifar100", scratch.path, {});
  ASSERT_TRUE(opened) << opened.error().line();
  EXPECT_EQ((*opened)->info().classes, 100);
  EXPECT_EQ(raw(**opened).label(Split::kTrain, 0), 99);
  EXPECT_EQ(raw(**opened).label(Split::kTrain, 1), 42);
  EXPECT_EQ((*opened)->info().class_names[42], "42");
  put(scratch.path / "train.bin", record(0, 100));
  EXPECT_NE(open_dataset("cifar100", scratch.path, {}).error().line().find("label 100"), std::string::npos);
}

}  // namespace
}  // namespace rekindle::data
