#include "data/idx.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>

#include "base/files.hpp"
#include "base/text.hpp"
#include "data/formats.hpp"
#include "data/gunzip.hpp"
#include "data/make_data.hpp"
#include "data/memory_images.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = std::size_t{kMnistSide} * kMnistSide;
constexpr std::uint32_t kIdxLabels = 0x801, kIdxImages = 0x803;  // unsigned bytes; 1 or 3 dimensions
constexpr const char* kTrainImages = "train-images-idx3-ubyte";

fs::path packed(const fs::path& path) { return path.string() + ".gz"; }

std::uint32_t word_at(std::span<const std::uint8_t> bytes, std::size_t offset) {
  return static_cast<std::uint32_t>(bytes[offset]) << 24 |
         static_cast<std::uint32_t>(bytes[offset + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[offset + 2]) << 8 | static_cast<std::uint32_t>(bytes[offset + 3]);
}

std::string kind_of(std::uint32_t magic) {
  if (magic == kIdxImages) return "IDX images";
  if (magic == kIdxLabels) return "IDX labels";
  return str("no IDX file (magic ", magic, ")");
}

struct IdxFile {
  fs::path path;                    // of the file that was read: plain or .gz
  std::vector<std::uint8_t> items;  // without the header
  std::size_t count = 0;
};

// The bytes of a plain or compressed file, in order.
class IdxBytes {
 public:
  IdxBytes(const InputFile& file, bool packed) : file_(file) {
    if (packed) unpacker_.emplace(file);
  }
  // Fills `out`. Returns the number of bytes, which is less than the size only at the end.
  Result<std::size_t> read(std::span<std::uint8_t> out) {
    if (unpacker_) return unpacker_->read(out);
    const auto piece = out.first(std::min<std::uint64_t>(out.size(), file_.size - at_));
    REKINDLE_CHECK(file_.read(at_, std::as_writable_bytes(piece)));
    at_ += piece.size();
    return piece.size();
  }
  // An upper bound of the number of bytes, checked before memory is allocated.
  std::uint64_t most() const { return unpacker_ ? most_expanded(file_.size) : file_.size; }

 private:
  const InputFile& file_;
  std::optional<Unpacker> unpacker_;
  std::uint64_t at_ = 0;
};

// Some archives have a folder of the file's name beside the file.
bool is_there(const fs::path& path) { return path_exists(path) && !is_folder(path); }

// `wanted`: kIdxImages or kIdxLabels. Allocates only as much memory as the header and the file's size allow.
Result<IdxFile> read_idx(const IdxFormat& format, const fs::path& folder, const char* name,
                         std::uint32_t wanted) {
  IdxFile idx{.path = folder / name, .items = {}};
  const bool plain = is_there(idx.path);
  if (!plain && !is_there(packed(idx.path))) {
    return fail(ExitCode::kConfig, str("missing ", idx.path.string(), " (or .gz)"),
                str("get ", format.title, "'s four IDX files, or make a data set with rekindle make-data ",
                    format.row->name, " DIR"));
  }
  if (!plain) idx.path = packed(idx.path);
  REKINDLE_TRY(const InputFile file, open_data_file(idx.path));
  IdxBytes bytes(file, !plain);

  const auto bad = [&](const std::string& what, const char* hint) {
    return fail(ExitCode::kConfig, str(idx.path.string(), what), hint);
  };
  constexpr const char* kAgain = "the file is truncated or damaged; get it again";
  const bool images = wanted == kIdxImages;
  std::array<std::uint8_t, 16> header{};
  const std::size_t header_bytes = images ? header.size() : 8, item = images ? kPixels : 1;
  REKINDLE_TRY(const std::size_t there, bytes.read(std::span(header).first(header_bytes)));
  if (there < 4) return bad(" is too short for an IDX file", kAgain);
  const std::uint32_t magic = word_at(header, 0);
  if (magic != wanted) {
    return bad(str(" holds ", kind_of(magic), " where ", kind_of(wanted), " are expected"),
               "the file has a wrong name or another format; give the files their own names");
  }
  if (there < header_bytes) return bad(" ends inside its IDX header", kAgain);
  idx.count = word_at(header, 4);
  if (images && (word_at(header, 8) != kMnistSide || word_at(header, 12) != kMnistSide)) {
    return bad(str(" has images of ", word_at(header, 8), "x", word_at(header, 12), " pixels"),
               "this format's are 28x28; rescale them");
  }
  if (idx.count == 0) return bad(" holds no items", kAgain);
  const std::size_t expected = header_bytes + idx.count * item;
  const auto other_size = [&](const std::string& has, bool less) {
    return bad(str(has, " bytes, but its header requires ", expected, " for ", idx.count,
                   images ? " images" : " labels"),
               less ? kAgain : "the file has bytes after its end; get it again");
  };
  if (plain && file.size != expected) return other_size(str(" has ", file.size), file.size < expected);
  if (expected > bytes.most()) return other_size(str(" cannot hold more than ", bytes.most()), true);
  idx.items.resize(idx.count * item);
  REKINDLE_TRY(const std::size_t filled, bytes.read(idx.items));
  if (filled < idx.items.size()) return other_size(str(" has ", header_bytes + filled), true);
  std::array<std::uint8_t, 1> more{};
  REKINDLE_TRY(const std::size_t behind,
               bytes.read(more));  // also checks gzip's checksum after the last item
  if (behind > 0) return other_size(str(" has more than ", expected), false);
  return idx;
}

Result<Images> read_split(const IdxFormat& format, const fs::path& folder, const char* images_name,
                          const char* labels_name) {
  REKINDLE_TRY(auto images, read_idx(format, folder, images_name, kIdxImages));
  REKINDLE_TRY(auto labels, read_idx(format, folder, labels_name, kIdxLabels));
  if (images.count != labels.count) {
    return fail(ExitCode::kConfig,
                str(images.path.string(), " has ", images.count, " images, but ", labels.path.string(),
                    " has ", labels.count, " labels"),
                "the files belong to different data sets; get both again");
  }
  for (std::size_t i = 0; i < labels.count; ++i) {
    if (labels.items[i] >= kClasses) {
      return fail(ExitCode::kConfig,
                  str(labels.path.string(), ": label ", i, " is ", int{labels.items[i]}, ", but ",
                      format.title, "'s are 0 to 9"),
                  "the file is damaged or another data set; get the file again");
    }
  }
  return Images{std::move(images.items), std::move(labels.items)};
}

std::string big_endian(std::uint32_t word) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(word >> shift & 0xffU));
  return bytes;
}

std::optional<fs::path> folder_of_files(const IdxFormat& format, const fs::path& directory) {
  for (const fs::path& place : {directory, directory / format.folder / "raw", directory / "raw"})
    if (is_there(place / kTrainImages) || is_there(packed(place / kTrainImages))) return place;
  return std::nullopt;
}

}  // namespace

bool has_idx(const IdxFormat& format, const fs::path& folder) {
  return folder_of_files(format, folder).has_value();
}

Result<std::unique_ptr<Dataset>> open_idx(const IdxFormat& format, const fs::path& directory) {
  REKINDLE_CHECK(check_folder(*format.row, directory));
  const fs::path folder = folder_of_files(format, directory).value_or(directory);
  REKINDLE_TRY(auto train, read_split(format, folder, kTrainImages, "train-labels-idx1-ubyte"));
  REKINDLE_TRY(auto test, read_split(format, folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"));
  DatasetInfo info{.kind = format.row->name, .channels = 1, .classes = kClasses};
  info.class_names.assign(format.class_names.begin(), format.class_names.end());
  return std::make_unique<MemoryImages>(std::move(info), Size{kMnistSide, kMnistSide}, format.preprocessing,
                                        std::move(train), std::move(test));
}

Result<MadeData> make_idx(const IdxFormat& format, const fs::path& folder, std::size_t samples,
                          std::uint64_t seed, Artist::Draw draw) {
  const Artist train(seed, format.made, Split::kTrain, samples, kPixels, draw);
  const Artist test(seed, format.made, Split::kTest, test_images(samples), kPixels, draw);
  REKINDLE_TRY(DataWriter writer, DataWriter::in(folder));
  for (const auto& [artist, prefix] : {std::pair(&train, "train"), std::pair(&test, "t10k")}) {
    const auto count = static_cast<std::uint32_t>(artist->count());
    std::string images =
        big_endian(kIdxImages) + big_endian(count) + big_endian(kMnistSide) + big_endian(kMnistSide);
    std::string labels = big_endian(kIdxLabels) + big_endian(count);
    images.reserve(images.size() + count * kPixels);
    for (std::size_t i = 0; i < count; ++i) {
      artist->append_pixels(i, images);
      labels.push_back(artist->label(i));
    }
    REKINDLE_CHECK(writer.write(str(prefix, "-images-idx3-ubyte"), images));
    REKINDLE_CHECK(writer.write(str(prefix, "-labels-idx1-ubyte"), labels));
  }
  return writer.made(train.count(), test.count());
}

}  // namespace rekindle::data
