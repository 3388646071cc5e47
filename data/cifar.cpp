#include "data/cifar.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "data/formats.hpp"
#include "data/memory_images.hpp"
#include "data/pickle.hpp"
#include "data/tar.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kOriginalRecords = 10'000;  // in each training file of CIFAR-10
constexpr std::size_t kPixels = 3 * kCifarSide * kCifarSide;

using Bytes = std::vector<std::uint8_t>;

std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The files of one version, in a folder or in an archive.
class Files {
 public:
  static Files in_folder(const CifarVersion& version, fs::path folder) {
    return {version, std::move(folder)};
  }
  static Result<Files> in_archive(const CifarVersion& version, const fs::path& archive) {
    std::vector<std::string> wanted = {str(version.folder, "/", version.test),
                                       str(version.folder, "/", version.class_names)};
    for (const std::string& name : version.train) wanted.push_back(str(version.folder, "/", name));
    Files files(version, archive);
    REKINDLE_TRY(TarFiles members, read_tar_gz(archive, wanted));
    const std::size_t prefix = std::string(version.folder).size() + 1;
    for (auto& [name, bytes] : members) files.members_.emplace(name.substr(prefix), std::move(bytes));
    files.packed_ = true;
    return files;
  }

  const CifarVersion& version() const { return *version_; }
  bool empty() const { return members_.empty(); }
  bool has(const std::string& name) const {
    return packed_ ? members_.contains(name) : path_exists(place_ / name);
  }
  std::string shown(const std::string& name) const { return (place_ / name).string(); }
  // Once for each name, because this gives up an archive's copy.
  Result<Bytes> take(const std::string& name) {
    if (packed_) return std::move(members_.at(name));
    REKINDLE_TRY(const InputFile file, open_data_file(place_ / name));
    Bytes bytes(file.size);
    REKINDLE_CHECK(file.read(0, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }

 private:
  Files(const CifarVersion& version, fs::path place) : version_(&version), place_(std::move(place)) {}

  const CifarVersion* version_;
  fs::path place_;
  bool packed_ = false;
  TarFiles members_;
};

class Reader {
 public:
  Reader(const CifarFormat& format, Files files) : format_(format), files_(std::move(files)) {}

  Result<std::unique_ptr<Dataset>> read() {
    const CifarVersion& version = files_.version();
    std::size_t batches = 1;
    for (std::size_t i = 0; i < version.train.size(); ++i) {
      if (files_.has(version.train[i])) batches = i + 1;
    }
    Images train, test;
    for (std::size_t i = 0; i < batches; ++i) REKINDLE_CHECK(append(version.train[i], train));
    // Small data sets for tests have fewer files. The files of the original, but not all of them, are an
    // incomplete copy.
    if (batches < version.train.size() && train.labels.size() == batches * kOriginalRecords)
      return missing(version.train[batches]);
    REKINDLE_CHECK(append(version.test, test));
    DatasetInfo info{.kind = format_.row->name, .channels = 3, .classes = format_.classes};
    REKINDLE_TRY(info.class_names, class_names());
    return std::make_unique<MemoryImages>(std::move(info), Size{kCifarSide, kCifarSide},
                                          Preprocessing::kImageNet, std::move(train), std::move(test));
  }

 private:
  bool is_python() const { return &files_.version() == &format_.python; }

  tl::unexpected<Error> missing(const std::string& name) const {
    return fail(ExitCode::kConfig, str("missing ", files_.shown(name)),
                str("get ", format_.title, ", or make a data set with rekindle make-data ", format_.row->name,
                    " DIR"));
  }

  Status append(const std::string& name, Images& images) {
    if (!files_.has(name)) return missing(name);
    REKINDLE_TRY(const Bytes bytes, files_.take(name));
    if (bytes.empty()) return fail(ExitCode::kConfig, str(files_.shown(name), " is empty"), "copy it again");
    return is_python() ? append_pickle(name, bytes, images) : append_records(name, bytes, images);
  }

  Status append_label(const std::string& name, std::size_t record, std::int64_t label, Images& images) const {
    if (label < 0 || label >= format_.classes) {
      return fail(ExitCode::kConfig,
                  str(files_.shown(name), ": record ", record, " has label ", label, ", but ", format_.title,
                      "'s labels are 0 to ", format_.classes - 1),
                  "the file is damaged or another format; copy it again");
    }
    images.labels.push_back(static_cast<std::uint8_t>(label));
    return {};
  }

  Status append_records(const std::string& name, const Bytes& bytes, Images& images) const {
    const std::size_t size = format_.label_bytes + kPixels;
    if (bytes.size() % size != 0) {
      return fail(ExitCode::kConfig,
                  str(files_.shown(name), " has ", bytes.size(), " bytes, not a multiple of ", size, " (",
                      format_.label_bytes == 1 ? "a label" : "two labels", " and 3072 pixels)"),
                  str("the file is truncated or not in ", format_.title, "'s binary version; copy it again"));
    }
    images.pixels.reserve(images.pixels.size() + bytes.size());
    for (std::size_t record = 0; record < bytes.size() / size; ++record) {
      const std::uint8_t* pixels = &bytes[record * size + format_.label_bytes];
      REKINDLE_CHECK(append_label(name, record, pixels[-1], images));
      images.pixels.insert(images.pixels.end(), pixels, pixels + kPixels);
    }
    return {};
  }

  Status append_pickle(const std::string& name, const Bytes& bytes, Images& images) const {
    REKINDLE_TRY(const Pickle pickle, Pickle::parse(text_of(bytes), files_.shown(name)));
    REKINDLE_TRY(const PickledArray data, pickle.array("data"));
    REKINDLE_TRY(const std::vector<std::int64_t> labels, pickle.numbers(format_.labels_key));
    if (data.columns != kPixels || data.rows != labels.size()) {
      return fail(ExitCode::kConfig,
                  str(files_.shown(name), " has ", data.rows, " x ", data.columns, " bytes of images and ",
                      labels.size(), " labels, but an image has ", kPixels, " bytes and a label"),
                  str("the file is damaged or not ", format_.title, "; get it again"));
    }
    const std::size_t begin = images.pixels.size();
    images.pixels.resize(begin + data.bytes.size());
    for (std::size_t record = 0; record < data.rows; ++record) {
      REKINDLE_CHECK(append_label(name, record, labels[record], images));
      for (std::size_t i = 0; i < kPixels; ++i) {
        const std::size_t at = data.column_major ? i * data.rows + record : record * kPixels + i;
        images.pixels[begin + record * kPixels + i] = static_cast<std::uint8_t>(data.bytes[at]);
      }
    }
    return {};
  }

  Result<std::vector<std::string>> class_names() {
    const std::string& name = files_.version().class_names;
    if (!files_.has(name)) return format_.default_names();
    REKINDLE_TRY(const Bytes bytes, files_.take(name));
    std::vector<std::string> names;
    if (is_python()) {
      REKINDLE_TRY(const Pickle pickle, Pickle::parse(text_of(bytes), files_.shown(name)));
      REKINDLE_TRY(names, pickle.texts(format_.class_names_key));
    } else {
      std::istringstream lines{std::string(text_of(bytes))};
      for (std::string line; std::getline(lines, line);) {
        while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
        if (!line.empty()) names.push_back(line);
      }
    }
    if (names.size() != static_cast<std::size_t>(format_.classes)) {
      return fail(ExitCode::kConfig,
                  str(files_.shown(name), " names ", names.size(), " classes instead of ", format_.classes),
                  str("get the file again, or remove it to use ", format_.title, "'s own names"));
    }
    return names;
  }

  const CifarFormat& format_;
  Files files_;
};

Result<Files> open_archive(const CifarFormat& format, const fs::path& path) {
  for (const CifarVersion* version : {&format.binary, &format.python}) {
    if (path.filename() == version->archive) return Files::in_archive(*version, path);
  }
  REKINDLE_TRY(Files files, Files::in_archive(format.binary, path));  // an archive with another name
  if (!files.empty()) return files;
  return Files::in_archive(format.python, path);
}

// In the folder `path`, in the folder inside that the archive unpacks to, or in an archive.
Result<Files> find_files(const CifarFormat& format, const fs::path& path) {
  if (is_file(path)) return open_archive(format, path);
  REKINDLE_CHECK(check_folder(*format.row, path));
  const CifarVersion* versions[] = {&format.binary, &format.python};
  for (const CifarVersion* version : versions) {
    for (const fs::path& folder : {path, path / version->folder}) {
      if (std::ranges::any_of(version->train,
                              [&](const std::string& name) { return is_file(folder / name); }))
        return Files::in_folder(*version, folder);
    }
  }
  for (const CifarVersion* version : versions) {
    if (is_file(path / version->archive)) return Files::in_archive(*version, path / version->archive);
  }
  return Files::in_folder(format.binary, path);
}

// The label in both places of a record of CIFAR-100: the coarse one is not read.
std::string records_of(const CifarFormat& format, const Artist& artist, std::size_t begin, std::size_t end) {
  std::string bytes;
  bytes.reserve((end - begin) * (format.label_bytes + kPixels));
  for (std::size_t i = begin; i < end; ++i) {
    bytes.append(format.label_bytes, artist.label(i));
    artist.append_pixels(i, bytes);
  }
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_cifar(const CifarFormat& format, const fs::path& path) {
  REKINDLE_TRY(Files files, find_files(format, path));
  return Reader(format, std::move(files)).read();
}

bool has_cifar(const CifarFormat& format, const fs::path& folder) {
  return std::ranges::any_of(std::array{&format.binary, &format.python}, [&](const CifarVersion* version) {
    return is_file(folder / version->train.front()) ||
           is_file(folder / version->folder / version->train.front()) || is_file(folder / version->archive);
  });
}

// The test file is written last, so an incomplete data set cannot be opened.
Result<MadeData> make_cifar(const CifarFormat& format, const fs::path& folder, std::size_t samples,
                            std::uint64_t seed, Artist::Draw draw) {
  const Artist train(seed, format.made, Split::kTrain, samples, kPixels, draw, format.classes);
  const Artist test(seed, format.made, Split::kTest, test_images(samples), kPixels, draw, format.classes);
  REKINDLE_TRY(DataWriter writer, DataWriter::in(folder));
  const std::vector<std::string>& names = format.binary.train;
  const std::size_t files = std::min(samples, names.size());
  for (std::size_t file = files; file < names.size(); ++file)
    REKINDLE_CHECK(writer.check_absent(names[file]));
  for (std::size_t file = 0; file < files; ++file) {
    const std::size_t begin = samples * file / files, end = samples * (file + 1) / files;
    REKINDLE_CHECK(writer.write(names[file], records_of(format, train, begin, end)));
  }
  std::string lines;
  for (const std::string& class_name : format.default_names()) lines += class_name + "\n";
  REKINDLE_CHECK(writer.write(format.binary.class_names, lines));
  REKINDLE_CHECK(writer.write(format.binary.test, records_of(format, test, 0, test.count())));
  return writer.made(train.count(), test.count());
}

}  // namespace rekindle::data
