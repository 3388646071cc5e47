#include <algorithm>
#include <numeric>
#include <set>

#include "support.hpp"

namespace rekindle::data {
namespace {

// A test's name has no dashes.
std::string name_of_test(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
}

// The share of test images whose own class has the nearest mean training image.
double nearest_mean_accuracy(const Dataset& dataset) {
  const DatasetInfo& info = dataset.info();
  const std::size_t bytes = raw(dataset).image(Split::kTrain, 0).pixels.size();
  std::vector<std::vector<double>> means(info.classes, std::vector<double>(bytes));
  std::vector<double> counts(info.classes);
  for (std::size_t i = 0; i < info.train_count; ++i) {
    const auto image = raw(dataset).image(Split::kTrain, i).pixels;
    const int label = raw(dataset).label(Split::kTrain, i);
    ++counts[label];
    for (std::size_t p = 0; p < bytes; ++p) means[label][p] += image[p];
  }
  for (int c = 0; c < info.classes; ++c) {
    for (double& mean : means[c]) mean /= counts[c];
  }
  int right = 0;
  for (std::size_t i = 0; i < info.test_count; ++i) {
    const auto image = raw(dataset).image(Split::kTest, i).pixels;
    std::vector<double> distances;
    distances.reserve(means.size());
    for (const auto& mean : means) {
      distances.push_back(std::transform_reduce(mean.begin(), mean.end(), image.begin(), 0.0, std::plus(),
                                                [](double m, std::uint8_t v) { return (m - v) * (m - v); }));
    }
    const auto nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
    right += nearest == raw(dataset).label(Split::kTest, i) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(info.test_count);
}

class MakeImages : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, MakeImages, testing::Values("cifar10", "cifar100", "mnist", "fashion-mnist"),
                         name_of_test);

TEST_P(MakeImages, ClassesCanBeLearntButNotTrivially) {
  const auto dataset = made(GetParam(), 2000);
  const double accuracy = nearest_mean_accuracy(*dataset);
  RecordProperty("accuracy", std::to_string(accuracy));
  const double chance = 1.0 / dataset->info().classes;
  EXPECT_GT(accuracy, 1.8 * chance);  // 400 test images: the deviation is 0.015 or less
  EXPECT_LT(accuracy, 0.95);
}

TEST_P(MakeImages, RoundTripHasTheCountsAndBalancedLabels) {
  const auto dataset = made(GetParam(), 103);
  const DatasetInfo& info = dataset->info();
  EXPECT_EQ(info.kind, GetParam());
  EXPECT_EQ(info.train_count, 103U);
  EXPECT_EQ(info.test_count, 20U);
  EXPECT_EQ(info.classes, GetParam() == "cifar100" ? 100 : 10);
  EXPECT_EQ(info.class_names.size(), static_cast<std::size_t>(info.classes));
  EXPECT_EQ(info.content_hash.size(), 32U);
  std::vector<int> counts(info.classes);
  bool sorted = true;
  for (std::size_t i = 0; i < 103; ++i) {
    ++counts[raw(*dataset).label(Split::kTrain, i)];
    if (i > 0)
      sorted = sorted && raw(*dataset).label(Split::kTrain, i - 1) <= raw(*dataset).label(Split::kTrain, i);
  }
  EXPECT_EQ(*std::min_element(counts.begin(), counts.end()), 103 / info.classes);
  EXPECT_EQ(*std::max_element(counts.begin(), counts.end()), 103 / info.classes + 1);
  EXPECT_FALSE(sorted);
}

TEST_P(MakeImages, FewSamplesStillGiveAWholeDataSet) {
  for (std::size_t samples = 1; samples < 7; ++samples) {
    const auto dataset = made(GetParam(), samples);
    EXPECT_EQ(dataset->info().train_count, samples);
    EXPECT_EQ(dataset->info().test_count, 1U);
  }
}

TEST_P(MakeImages, LeavesOnlyItsOwnFiles) {
  const Scratch scratch;
  ASSERT_TRUE(make_data(GetParam(), scratch.path / "new" / "folder", 20, 1));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(scratch.path / "new" / "folder"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  const std::vector<std::string> cifar = {"batches.meta.txt", "data_batch_1.bin", "data_batch_2.bin",
                                          "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
                                          "test_batch.bin"};
  const std::vector<std::string> mnist = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
                                          "train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
  const std::vector<std::string> hundred = {"fine_label_names.txt", "test.bin", "train.bin"};
  EXPECT_EQ(names, GetParam() == "cifar10" ? cifar : GetParam() == "cifar100" ? hundred : mnist);
}

class MakeEveryKind : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, MakeEveryKind, testing::ValuesIn(names_of_datasets()), name_of_test);

TEST_P(MakeEveryKind, IsAPureFunctionOfKindSamplesAndSeed) {
  const auto a = made(GetParam(), 60, 3), b = made(GetParam(), 60, 3), other = made(GetParam(), 60, 4);
  EXPECT_EQ(a->info().content_hash, b->info().content_hash);
  EXPECT_NE(a->info().content_hash, other->info().content_hash);
}

TEST_P(MakeEveryKind, AgainIsFine_AnotherDataSetIsNotOverwritten) {
  const Scratch scratch;
  ASSERT_TRUE(make_data(GetParam(), scratch.path, 20, 1));
  ASSERT_TRUE(make_data(GetParam(), scratch.path, 20, 1));
  const std::string before = open_dataset(GetParam(), scratch.path, {}).value()->info().content_hash;
  for (const std::size_t samples : {3, 20, 25}) {
    const auto status = make_data(GetParam(), scratch.path, samples, 2);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ExitCode::kConfig);
    EXPECT_NE(status.error().what.find("is not the file that this command makes"), std::string::npos)
        << status.error().line();
  }
  EXPECT_EQ(open_dataset(GetParam(), scratch.path, {}).value()->info().content_hash, before);
}

TEST(MakeDataErrors, AnUnknownKindNamesTheNearest) {
  const Scratch scratch;
  const auto status = make_data("cifar-10", scratch.path / "x", 10, 1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ExitCode::kUsage);
  EXPECT_NE(status.error().line().find("did you mean cifar10?"), std::string::npos);
  EXPECT_FALSE(fs::exists(scratch.path / "x"));
}

TEST(MakeDataErrors, SenselessCountsAreUsageErrors) {
  const Scratch scratch;
  for (const std::size_t samples : {std::size_t{0}, ~std::size_t{0}}) {
    const auto status = make_data("mnist", scratch.path / "x", samples, 1);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ExitCode::kUsage);
  }
  EXPECT_FALSE(fs::exists(scratch.path / "x"));
}

TEST(MakeDataErrors, AFolderThatCannotBeMadeIsSaid) {
  const Scratch scratch;
  put(scratch.path / "file", "x");
  const auto status = make_data("mnist", scratch.path / "file", 10, 1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ExitCode::kConfig);
  EXPECT_NE(status.error().line().find((scratch.path / "file").string()), std::string::npos)
      << status.error().line();
}

// Each would become a part of the made data set, or would be hidden by it.
TEST(MakeImageFolder, IntoOtherImages_IsRefused_AndWritesNothing) {
  const auto names_in = [](const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) names.insert(entry.path());
    return names;
  };
  for (const char* image : {"train/a/0.jpg", "val/a/0.jpg", "a/0.jpg", "train/n00000000/images/x.JPEG",
                            "train/n00000000/0.jpg", "val/images/x.JPEG"}) {
    const Scratch scratch;
    put(scratch.path / image, "theirs");
    const auto before = names_in(scratch.path);
    const auto made = make_data("image-folder", scratch.path, 40, 1);
    ASSERT_FALSE(made) << image;
    EXPECT_EQ(made.error().code, ExitCode::kConfig);
    EXPECT_NE(made.error().line().find("make-data overwrites nothing"), std::string::npos);
    EXPECT_EQ(names_in(scratch.path), before) << image;
  }
}

TEST(MakeImageFolder, AfterAKilledMaker_TheRestIsMade) {
  const Scratch scratch, other;
  ASSERT_TRUE(make_data("image-folder", scratch.path, 40, 1));
  ASSERT_TRUE(make_data("image-folder", other.path, 40, 1));
  const fs::path images = scratch.path / "train/n00000009/images";
  fs::rename(images / "n00000009_3.JPEG", images / "n00000009_3.JPEG.tmp.1.2");
  fs::remove_all(scratch.path / "val");
  ASSERT_TRUE(make_data("image-folder", scratch.path, 40, 1));
  EXPECT_EQ(open_dataset("image-folder", scratch.path, {}).value()->info().content_hash,
            open_dataset("image-folder", other.path, {}).value()->info().content_hash);
}

}  // namespace
}  // namespace rekindle::data
