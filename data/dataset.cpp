#include "data/dataset.hpp"

#include <algorithm>
#include <exception>
#include <new>

#include "base/files.hpp"
#include "base/input_file.hpp"
#include "base/lines.hpp"
#include "base/nearest.hpp"
#include "base/text.hpp"
#include "data/formats.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

const DatasetRow* const kDatasets[] = {&kCifar10, &kCifar100, &kMnist, &kFashionMnist, &kImageFolder, &kText};

// A process must hold all samples while it writes them: 3 GB of CIFAR-10's records.
constexpr std::size_t kMostMade = 1'000'000;

// The order of samples is one of 32-bit numbers (data/sample_order.cpp).
constexpr std::size_t kMostSamples = 0xffff'ffff;

// Another built-in format whose files the folder seems to have. None if the files may be of the one that was
// tried: they are damaged.
const DatasetRow* other_format(const DatasetRow& tried, const fs::path& folder) {
  if (tried.looks_right != nullptr && tried.looks_right(folder)) return nullptr;
  for (const DatasetRow* row : kDatasets)
    if (row != &tried && row->looks_right != nullptr && row->looks_right(folder)) return row;
  return nullptr;
}

// A data set of one's own may report an error by an exception.
Result<std::unique_ptr<Dataset>> open(const DatasetRow& row, const fs::path& path,
                                      const DatasetOptions& options) {
  const auto failed = [&](const std::string& what) {
    return fail(str("the data set ", row.name, " failed to open ", path.string(), ": ", what),
                "look at its open()");
  };
  try {
    return row.open(path, options);
  } catch (const std::bad_alloc&) {
    return fail(str("there is not enough memory to open ", path.string()), "give the job more memory");
  } catch (const std::exception& error) {
    return failed(line_of_exception(error.what()));
  } catch (...) {
    return failed("an exception of an unknown type");
  }
}

// What a data set of one's own says about itself. The memory for its samples is made by this.
Status check_info(const DatasetRow& row, const DatasetInfo& info) {
  const auto refuse = [&row](const std::string& what) -> Status {
    return fail(ExitCode::kConfig, str("the data set ", row.name, " ", what), "look at its info()");
  };
  const bool text = row.samples == SampleKind::kText;
  if (info.samples != row.samples)
    return refuse(str("has the samples of ", text ? "images" : "text", ", and its row has those of ",
                      text ? "text" : "images"));
  if (text && info.channels != 0) return refuse(str("is text, and has ", info.channels, " channels"));
  if (text && info.context < 1) return refuse(str("is text with a context of ", info.context));
  if (!text && info.channels < 1) return refuse(str("has images of ", info.channels, " channels"));
  if (!text && info.context != 0) return refuse(str("has images, and a context of ", info.context));
  if (info.image_size < 0 || (text && info.image_size != 0))
    return refuse(str(text ? "is text" : "has images", ", and an image size of ", info.image_size));
  if (info.classes < 1) return refuse(str("has ", info.classes, " classes"));
  if (std::max(info.train_count, info.test_count) > kMostSamples)
    return refuse(str("has more than ", kMostSamples, " samples"));
  return {};
}

}  // namespace

const char* name_of(Augment augment) {
  switch (augment) {
    case Augment::kOff:
      return "off";
    case Augment::kCrop:
      return "crop";
    case Augment::kResizedCrop:
      return "resized-crop";
  }
  return "";
}

std::optional<Augment> augment_of(const std::string& name) {
  for (const Augment augment : {Augment::kOff, Augment::kCrop, Augment::kResizedCrop}) {
    if (name == name_of(augment)) return augment;
  }
  return std::nullopt;
}

DatasetRows datasets() { return kDatasets; }

std::vector<std::string> names_of_datasets(DatasetRows more) {
  std::vector<std::string> names;
  for (const DatasetRows rows : {datasets(), more})
    for (const DatasetRow* row : rows) names.emplace_back(row->name);
  return names;
}

Result<const DatasetRow*> find_dataset(const std::string& name, DatasetRows more) {
  for (const DatasetRows rows : {datasets(), more})
    for (const DatasetRow* row : rows)
      if (name == row->name) return row;
  return fail(ExitCode::kUsage, str("unknown kind of data set '", name, "'"),
              did_you_mean(name, names_of_datasets(more)));
}

void make_room(Batch& batch, const DatasetInfo& info, const TransformConfig& config, std::size_t samples) {
  const auto side = static_cast<std::size_t>(config.image_size);
  const auto context = static_cast<std::size_t>(info.context);
  const bool images = info.samples == SampleKind::kImages;
  batch.images.resize(images ? samples * static_cast<std::size_t>(info.channels) * side * side : 0);
  batch.tokens.resize(images ? 0 : samples * context);
  batch.labels.resize(images ? samples : samples * context);
  batch.samples.resize(samples);
  // A data set may leave out a part of a sample, such as the end of a short sequence. That part must not hold
  // values of an earlier sample.
  std::ranges::fill(batch.images, 0.0F);
  std::ranges::fill(batch.tokens, 0);
  std::ranges::fill(batch.labels, images ? 0 : kNoLabel);
}

std::span<float> image_of(Batch& batch, std::size_t place) {
  const std::size_t floats = batch.samples.empty() ? 0 : batch.images.size() / batch.samples.size();
  return std::span(batch.images).subspan(place * floats, floats);
}

Result<InputFile> open_data_file(const FilePath& path) {
  auto file = open_input(path);
  if (!file) {
    return forward_error(Error{ExitCode::kConfig, std::move(file.error().what),
                               "replace it with a readable regular file", file.error().kind});
  }
  REKINDLE_CHECK(check_holes(*file));
  return file;
}

Result<std::string> test_folder(const fs::path& root, const char* part) {
  for (const char* name : {"val", "valid", "validation", "test"})
    if (is_folder(root / name)) return name;
  return fail(ExitCode::kConfig, str(root.string(), " has the folder train, but no val"),
              str("add the folder val, or use --data ", (root / "train").string(), ", of which ", part,
                  " becomes the test split"));
}

Status check_folder(const DatasetRow& row, const fs::path& path) {
  if (is_folder(path)) return {};
  if (path_exists(path))
    return fail(ExitCode::kConfig, str(path.string(), " is not a directory"),
                str("set --data to a folder with ", row.name, " files; unpack an archive"));
  return fail(ExitCode::kConfig, str(path.string(), ": no such data directory"),
              str("set --data to a folder with ", row.name, " files, or make a data set: rekindle make-data ",
                  row.name, " ", path.string()));
}

Result<std::unique_ptr<Dataset>> open_dataset(const std::string& kind, const fs::path& path,
                                              const DatasetOptions& options, DatasetRows more) {
  REKINDLE_TRY(const DatasetRow* row, find_dataset(kind, more));
  auto opened = open(*row, path, options);
  if (opened) REKINDLE_CHECK(check_info(*row, (*opened)->info()));
  if (opened || !is_folder(path)) return opened;
  if (const DatasetRow* other = other_format(*row, path))
    opened.error().hint =
        str("the folder looks like one for --dataset ", other->name, "; ", opened.error().hint);
  return opened;
}

Result<MadeData> make_data(const std::string& kind, const fs::path& path, std::size_t samples,
                           std::uint64_t seed) {
  REKINDLE_TRY(const DatasetRow* row, find_dataset(kind));
  if (samples < 1 || samples > kMostMade) {
    return fail(ExitCode::kUsage, str("cannot make a data set of ", samples, " samples"),
                str("--samples takes 1 to ", kMostMade));
  }
  return row->make(path, samples, seed);
}

}  // namespace rekindle::data
