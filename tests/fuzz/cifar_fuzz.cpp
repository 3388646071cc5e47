// Any bytes as a file of CIFAR's Python version ('p' first), or as the tar data of its archive: an error, or
// as many images as labels.
#include <fcntl.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "../data/gzipped.hpp"
#include "../temporary_directory.hpp"
#include "base/files.hpp"
#include "data/dataset.hpp"
#include "data/pickle.hpp"
#include "require.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

void read_pickle(std::string_view bytes) {
  const auto pickle = Pickle::parse(bytes, "pickle");
  if (!pickle) return;
  const auto array = pickle->array("data");
  if (array) require(array->rows * array->columns == array->bytes.size(), "its shape is wrong");
  std::ignore = pickle->numbers("labels");
  std::ignore = pickle->texts("label_names");
}

void read_archive(std::string_view bytes) {
  static const TemporaryDirectory memory("/dev/shm");  // one for this process
  const fs::path path = memory.path() / "archive.tar.gz";
  const std::string packed = gzipped(bytes, Z_BEST_SPEED);
  {
    const auto fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    require(fd && write_all(fd->get(), path, 0, std::as_bytes(std::span(packed))), "it cannot be written");
  }
  const auto dataset = open_dataset("cifar10", path, {});
  if (dataset) require((*dataset)->info().train_count > 0, "it has no images");
}

}  // namespace
}  // namespace rekindle::data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  data[0] == 'p' ? rekindle::data::read_pickle(bytes) : rekindle::data::read_archive(bytes);
  return 0;
}
