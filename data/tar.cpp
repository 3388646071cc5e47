#include "data/tar.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "data/formats.hpp"
#include "data/gunzip.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;
constexpr std::size_t kFirstPiece = std::size_t{1} << 20;
using Block = std::array<std::uint8_t, kBlock>;

std::string_view text_at(const Block& block, std::size_t offset, std::size_t size) {
  const std::string_view field(reinterpret_cast<const char*>(block.data()) + offset, size);
  return field.substr(0, field.find('\0'));
}

// An octal number that ends with a space or a NUL; nullopt if it is another number, or GNU's binary form.
std::optional<std::uint64_t> octal_at(const Block& block, std::size_t offset, std::size_t size) {
  std::uint64_t value = 0;
  bool any = false;
  for (const char c : text_at(block, offset, size)) {
    if (c == ' ' && any) break;
    if (c == ' ') continue;
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
    any = true;
  }
  return any ? std::optional(value) : std::nullopt;
}

std::uint64_t sum_of(const Block& block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i)
    sum += i >= 148 && i < 156 ? ' ' : block[i];  // without the sum itself
  return sum;
}

bool leads_outside(std::string_view name) {
  if (name.starts_with('/')) return true;
  const fs::path path(name);
  return std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

class TarReader {
 public:
  TarReader(const InputFile& file, std::span<const std::string> wanted)
      : file_(file), unpacker_(file), wanted_(wanted), left_(most_expanded(file.size)) {}

  Result<TarFiles> read() {
    Block header{};
    while (true) {
      REKINDLE_CHECK(read_block(header));
      if (std::ranges::all_of(header, [](std::uint8_t byte) { return byte == 0; })) break;
      REKINDLE_CHECK(read_entry(header));
    }
    REKINDLE_CHECK(drain());
    return std::move(files_);
  }

 private:
  tl::unexpected<Error> bad(const std::string& what,
                            const char* hint = "the download is damaged; get the file again") const {
    return fail(ExitCode::kConfig, str(file_.path.string(), what), hint);
  }

  Status read_bytes(std::span<std::uint8_t> out) {
    if (out.size() > left_)
      return bad(str(" would unpack to more than ", most_expanded(file_.size), " bytes"),
                 "use the archive from the data set's own page");
    left_ -= out.size();
    REKINDLE_TRY(const std::size_t there, unpacker_.read(out));
    if (there < out.size()) return bad(" ends in the middle of its tar data");
    return {};
  }
  Status read_block(Block& block) { return read_bytes(block); }

  // Reads to the end of the archive, which checks gzip's checksum.
  Status drain() {
    Block block{};
    while (true) {
      REKINDLE_TRY(const std::size_t there, unpacker_.read(block));
      if (there == 0) return {};
      if (there > left_) return bad(" has too many bytes after its end");
      left_ -= there;
    }
  }

  Status skip(std::uint64_t bytes) {
    std::array<std::uint8_t, 32768> piece{};
    for (; bytes > 0; bytes -= std::min<std::uint64_t>(bytes, piece.size()))
      REKINDLE_CHECK(read_bytes(std::span(piece).first(std::min<std::uint64_t>(bytes, piece.size()))));
    return {};
  }

  Status read_entry(const Block& header) {
    const auto size = octal_at(header, 124, 12), sum = octal_at(header, 148, 8);
    if (!sum || *sum != sum_of(header)) return bad(" has a damaged tar header");
    if (!size) return bad(" has an entry whose size cannot be read");
    std::string name(text_at(header, 0, 100));
    if (text_at(header, 257, 6) == "ustar" && header[345] != 0)
      name = str(text_at(header, 345, 155), "/", name);
    if (leads_outside(name))
      return bad(str(" has an entry outside of the archive, ", printable(name)),
                 "do not use this archive; get it from the data set's own page");
    while (name.starts_with("./")) name.erase(0, 2);
    const std::uint64_t padding = (kBlock - *size % kBlock) % kBlock;
    switch (header[156]) {
      case '0':
      case '\0':
        return read_file(name, *size, padding);
      case '5':  // a folder
      case 'x':  // what pax and GNU tar add about the next entry or all entries
      case 'g':
      case 'L':
        return skip(*size + padding);
      default:
        return bad(str(" has the entry ", printable(name),
                       ", which is a link or a device, or of a kind that is not read"),
                   "do not use this archive; get it from the data set's own page");
    }
  }

  Status read_file(const std::string& name, std::uint64_t size, std::uint64_t padding) {
    if (std::ranges::find(wanted_, name) == wanted_.end()) return skip(size + padding);
    if (files_.contains(name)) return bad(str(" has ", printable(name), " twice"));
    if (size > left_)
      return bad(str(" would unpack to more than ", most_expanded(file_.size), " bytes"),
                 "use the archive from the data set's own page");
    // Memory for bytes that are there: a header may promise more.
    std::vector<std::uint8_t> bytes;
    while (bytes.size() < size) {
      const std::size_t before = bytes.size();
      bytes.resize(std::min<std::uint64_t>(size, std::max(kFirstPiece, 2 * before)));
      REKINDLE_CHECK(read_bytes(std::span(bytes).subspan(before)));
    }
    files_.emplace(name, std::move(bytes));
    return skip(padding);
  }

  const InputFile& file_;
  Unpacker unpacker_;
  const std::span<const std::string> wanted_;
  std::uint64_t left_;  // bytes that may still be unpacked
  TarFiles files_;
};

}  // namespace

Result<TarFiles> read_tar_gz(const fs::path& path, std::span<const std::string> wanted) {
  REKINDLE_TRY(const InputFile file, open_data_file(path));
  return TarReader(file, wanted).read();
}

}  // namespace rekindle::data
