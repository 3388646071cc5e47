#include "checkpoint/torch_file.hpp"

#include <unistd.h>

#include <string_view>

#include "checkpoint/pickle.hpp"
#include "checkpoint/stored_zip.hpp"

namespace rekindle::checkpoint {
namespace {

// Records and their order as in torch/serialization.py; a folder of any name is around them.
Status write_records(StoredZip& zip, const State& state) {
  const auto text = [&zip](const std::string& name, std::string_view content) {
    return zip.add("archive/" + name, std::as_bytes(std::span(content)));
  };
  REKINDLE_CHECK(text("data.pkl", state_dict_pickle(spec_of(state))));
  REKINDLE_CHECK(text("byteorder", "little"));
  for (std::size_t i = 0; i < state.size(); ++i)
    REKINDLE_CHECK(zip.add("archive/data/" + std::to_string(i), state[i].bytes));
  REKINDLE_CHECK(text("version", "3\n"));
  return zip.finish();
}

}  // namespace

Status write_torch(const FilePath& path, const State& state) {
  REKINDLE_TRY(StoredZip zip, StoredZip::create(path));
  Status status = write_records(zip, state);
  if (!status) std::ignore = remove_file(path);
  return status;
}

}  // namespace rekindle::checkpoint
