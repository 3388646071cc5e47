#include <algorithm>
#include <system_error>
#include <utility>

#include "base/files.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "data/dataset.hpp"
#include "data/formats.hpp"
#include "data/synthetic.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSamples =
    1'000'000;  // 3 GB of CIFAR-10 records: a process must hold all images while writing

// Every draw is keyed by (seed, kind, split, image), so an image does not depend on the images before it.
class Artist {
 public:
  Artist(std::uint64_t seed, bool mnist, Split split, std::size_t count)
      : seed_(seed),
        kind_(mnist ? 1 : 0),
        split_(split == Split::kTrain ? 0 : 1),
        labels_(balanced_labels(count, Rng(stream_key(seed, Draws::kMakeData, {kind_, split_})))) {}

  std::size_t count() const { return labels_.size(); }
  char label(std::size_t i) const { return static_cast<char>(labels_[i]); }
  void append_pixels(std::size_t i, std::string& out) const {
    std::vector<std::uint8_t> pixels(kind_ == 1 ? kMnistPixels : kCifarPixels);
    Rng rng(stream_key(seed_, Draws::kMakeData, {kind_, split_, i}));
    kind_ == 1 ? draw_digit(labels_[i], rng, pixels) : draw_stripes(labels_[i], rng, pixels);
    out.append(pixels.begin(), pixels.end());
  }

 private:
  std::uint64_t seed_, kind_, split_;
  std::vector<std::uint8_t> labels_;
};

std::string cifar_records(const Artist& artist, std::size_t begin, std::size_t end) {
  std::string bytes;
  bytes.reserve((end - begin) * kCifarRecord);
  for (std::size_t i = begin; i < end; ++i) {
    bytes.push_back(artist.label(i));
    artist.append_pixels(i, bytes);
  }
  return bytes;
}

std::string big_endian(std::uint32_t word) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(word >> shift & 0xffU));
  return bytes;
}

// Writes a file unless an equal file exists already.
class Writer {
 public:
  explicit Writer(fs::path folder) : folder_(std::move(folder)) {}

  Status write(const std::string& name, const std::string& bytes) {
    const fs::path path = folder_ / name;
    bytes_ += bytes.size();
    if (path_exists(path)) {
      if (auto old = read_text(path, bytes.size()); old && *old == bytes) return {};
      return occupied(path);
    }
    if (auto status = replace_file(path, bytes); !status) {
      return fail(ExitCode::kConfig, status.error().what,
                  "choose a folder that is writable and has enough space");
    }
    ++written_;
    return {};
  }
  std::size_t written() const { return written_; }
  std::uint64_t bytes() const { return bytes_; }
  // A reader would treat another data set's file in this folder as part of this data set.
  Status absent(const std::string& name) const {
    if (path_exists(folder_ / name)) return occupied(folder_ / name);
    return {};
  }

 private:
  static tl::unexpected<Error> occupied(const fs::path& path) {
    return fail(ExitCode::kConfig, str(path.string(), " belongs to another data set"),
                "make-data overwrites no data set: choose another folder or remove that data set first");
  }
  fs::path folder_;
  std::size_t written_ = 0;
  std::uint64_t bytes_ = 0;
};

// The test file is written last, so an incomplete data set cannot be opened.
Status write_cifar10(Writer& writer, const Artist& train, const Artist& test) {
  const std::size_t files = std::min<std::size_t>(train.count(), 5);
  const auto name = [](std::size_t file) { return str("data_batch_", file + 1, ".bin"); };
  for (std::size_t file = files; file < 5; ++file) REKINDLE_CHECK(writer.absent(name(file)));
  std::string names;
  for (const std::string& class_name : cifar_class_names()) names += class_name + "\n";
  for (std::size_t file = 0; file < files; ++file) {
    const std::size_t begin = train.count() * file / files, end = train.count() * (file + 1) / files;
    REKINDLE_CHECK(writer.write(name(file), cifar_records(train, begin, end)));
  }
  REKINDLE_CHECK(writer.write("batches.meta.txt", names));
  return writer.write("test_batch.bin", cifar_records(test, 0, test.count()));
}

Status write_mnist(Writer& writer, const Artist& train, const Artist& test) {
  for (const auto& [artist, prefix] : {std::pair(&train, "train"), std::pair(&test, "t10k")}) {
    const auto count = static_cast<std::uint32_t>(artist->count());
    std::string images =
        big_endian(kIdxImages) + big_endian(count) + big_endian(kMnistSide) + big_endian(kMnistSide);
    std::string labels = big_endian(kIdxLabels) + big_endian(count);
    images.reserve(images.size() + count * kMnistPixels);
    for (std::size_t i = 0; i < count; ++i) {
      artist->append_pixels(i, images);
      labels.push_back(artist->label(i));
    }
    REKINDLE_CHECK(writer.write(str(prefix, "-images-idx3-ubyte"), images));
    REKINDLE_CHECK(writer.write(str(prefix, "-labels-idx1-ubyte"), labels));
  }
  return {};
}

}  // namespace

Result<MadeData> make_data(const std::string& kind, const fs::path& directory, std::size_t samples,
                           std::uint64_t seed) {
  REKINDLE_CHECK(check_kind(kind));
  if (samples < 1 || samples > kMostSamples) {
    return fail(ExitCode::kUsage, str("cannot make a data set of ", samples, " samples"),
                str("--samples takes 1 to ", kMostSamples));
  }
  if (auto status = make_directories(directory); !status) {
    return fail(ExitCode::kConfig, status.error().what,
                "choose a folder that can be created and is writable");
  }
  const bool mnist = kind == "mnist";
  const Artist train(seed, mnist, Split::kTrain, samples);
  const Artist test(seed, mnist, Split::kTest, std::max<std::size_t>(samples / 5, 1));
  Writer writer(directory);
  REKINDLE_CHECK(mnist ? write_mnist(writer, train, test) : write_cifar10(writer, train, test));
  return MadeData{train.count(), test.count(), writer.written(), writer.bytes()};
}

}  // namespace rekindle::data
