// Any bytes as an IDX file, plain ('p' first) or packed: an error, or the images that the header promises.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <tuple>

#include "../temporary_directory.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "data/dataset.hpp"
#include "require.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImages = "train-images-idx3-ubyte";

// A made data set in memory, one for this process.
const fs::path& directory() {
  static const TemporaryDirectory memory("/dev/shm");
  static const fs::path path = memory.path() / "data";
  static const bool made = make_data("mnist", path, 2, 1).has_value();
  require(made, "there is no data set");
  return path;
}

void read(bool packed, std::string_view bytes) {
  const fs::path plain = directory() / kImages, gz = plain.string() + ".gz";
  std::error_code ignored;
  fs::remove(plain, ignored);
  fs::remove(gz, ignored);
  const fs::path& path = packed ? gz : plain;
  {
    const auto fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    require(fd && write_all(fd->get(), path, 0, std::as_bytes(std::span(bytes))), "it cannot be written");
  }
  const auto dataset = open_dataset("mnist", directory(), {});
  if (!dataset) return;
  const DatasetInfo& info = (*dataset)->info();
  const TransformConfig config;
  Batch batch;
  make_room(batch, info, config, 1);
  for (std::size_t i = 0; i < info.train_count; ++i)
    require((*dataset)->read(Split::kTrain, i, config, 0, batch, 0).has_value(), "an image cannot be read");
}

}  // namespace
}  // namespace rekindle::data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  rekindle::data::read(data[0] != 'p', {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
