#include "data/make_data.hpp"

#include "base/files.hpp"
#include "base/text.hpp"
#include "data/synthetic.hpp"

namespace rekindle::data {

namespace fs = std::filesystem;

tl::unexpected<Error> occupied(const fs::path& path) {
  return fail(ExitCode::kConfig, str(path.string(), " exists and is not the file that this command makes"),
              "make-data overwrites nothing: choose another folder, or remove the old data first");
}

Result<DataWriter> DataWriter::in(const fs::path& folder) {
  if (is_file(folder))
    return fail(ExitCode::kConfig, str(folder.string(), " is a file, not a folder"), "give another path");
  if (auto status = make_directories(folder); !status) {
    return fail(ExitCode::kConfig, status.error().what,
                "choose a folder that can be created and is writable");
  }
  return DataWriter(folder);
}

Status DataWriter::check_equal(const std::string& name, const std::string& bytes) const {
  const fs::path path = folder_ / name;
  if (!path_exists(path)) return {};
  if (is_file(path)) {  // to read a pipe could take for ever
    if (auto old = read_text(path, bytes.size()); old && *old == bytes) return {};
  }
  return occupied(path);
}

Status DataWriter::write(const std::string& name, const std::string& bytes, bool durably) {
  const fs::path path = folder_ / name;
  bytes_ += bytes.size();
  REKINDLE_CHECK(check_equal(name, bytes));
  if (path_exists(path)) return {};
  if (auto status = durably ? replace_file(path, bytes) : replace_file_quickly(path, bytes); !status) {
    return fail(ExitCode::kConfig, status.error().what,
                "choose a folder that is writable and has enough space");
  }
  ++written_;
  return {};
}

Status DataWriter::check_absent(const std::string& name) const {
  if (path_exists(folder_ / name)) return occupied(folder_ / name);
  return {};
}

Artist::Artist(std::uint64_t seed, Made format, Split split, std::size_t count, std::size_t image_bytes,
               Draw draw, int classes)
    : seed_(seed),
      format_(static_cast<std::uint64_t>(format)),
      split_(split == Split::kTrain ? 0 : 1),
      image_bytes_(image_bytes),
      draw_(draw),
      labels_(balanced_labels(count, classes, Rng(stream_key(seed, Draws::kMakeData, {format_, split_})))) {}

void Artist::append_pixels(std::size_t i, std::string& out) const {
  std::vector<std::uint8_t> pixels(image_bytes_);
  Rng rng(stream_key(seed_, Draws::kMakeData, {format_, split_, i}));
  draw_(labels_[i], rng, pixels);
  out.append(pixels.begin(), pixels.end());
}

}  // namespace rekindle::data
