#include "data/dataset.hpp"

#include <system_error>

#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "base/text.hpp"
#include "data/formats.hpp"
#include "data/memory_dataset.hpp"

namespace rekindle::data {
namespace fs = std::filesystem;

MemoryDataset::MemoryDataset(DatasetInfo shape, Images train, Images test)
    : info_(std::move(shape)),
      image_bytes_(static_cast<std::size_t>(info_.channels) * info_.height * info_.width),
      train_(std::move(train)),
      test_(std::move(test)) {
  info_.train_count = train_.labels.size();
  info_.test_count = test_.labels.size();
  Hasher128 hasher;
  for (const Images* images : {&train_, &test_}) {
    hasher.update(std::as_bytes(std::span(images->labels)));
    hasher.update(std::as_bytes(std::span(images->pixels)));
  }
  info_.content_hash = hasher.digest().hex();
}

Status check_kind(const std::string& kind) {
  const std::vector<std::string> kinds = {"cifar10", "mnist"};
  for (const std::string& known : kinds) {
    if (kind == known) return {};
  }
  return fail(ExitCode::kUsage, str("unknown kind of data set '", kind, "'"), did_you_mean(kind, kinds));
}

Result<InputFile> open_data_file(const fs::path& path) {
  auto file = open_input(path);
  if (!file) return fail(ExitCode::kConfig, file.error().what, "replace it with a readable regular file");
  REKINDLE_CHECK(check_holes(*file));
  return file;
}

Result<std::unique_ptr<Dataset>> open_dataset(const std::string& kind, const fs::path& directory) {
  REKINDLE_CHECK(check_kind(kind));
  if (!is_folder(directory)) {
    const char* what = path_exists(directory) ? " is not a directory" : ": no such data directory";
    return fail(ExitCode::kConfig, str(directory.string(), what),
                str("set --data to a folder with ", kind, " files, or make a data set: rekindle make-data ",
                    kind, " ", directory.string()));
  }
  return kind == "mnist" ? open_mnist(directory) : open_cifar10(directory);
}

}  // namespace rekindle::data
