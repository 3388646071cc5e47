#include "checkpoint/torch_file.hpp"

#include <unistd.h>

#include <string_view>

#include "checkpoint/pickle.hpp"
#include "checkpoint/pieces.hpp"
#include "checkpoint/stored_zip.hpp"

namespace rekindle::checkpoint {
namespace {

// Records and their order as in torch/serialization.py; they are in a folder, which may have any name.
Status write_records(StoredZip& zip, const TensorSource& source) {
  const auto text = [&zip](const std::string& name, std::string_view content) {
    return zip.add("archive/" + name, std::as_bytes(std::span(content)));
  };
  REKINDLE_CHECK(text("data.pkl", state_dict_pickle(source.tensors)));
  REKINDLE_CHECK(text("byteorder", "little"));
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    REKINDLE_CHECK(zip.add("archive/data/" + std::to_string(i), source.tensors[i].bytes(),
                           [&](const StoredZip::Visit& visit) { return each_piece(source, i, visit); }));
  }
  REKINDLE_CHECK(text("version", "3\n"));
  return zip.finish();
}

}  // namespace

Status write_torch(const FilePath& path, const TensorSource& source) {
  REKINDLE_TRY(StoredZip zip, StoredZip::create(path));
  Status status = write_records(zip, source);
  if (!status) std::ignore = remove_file(path);
  return status;
}

}  // namespace rekindle::checkpoint
