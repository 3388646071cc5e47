#include "data/gunzip.hpp"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/text.hpp"

namespace rekindle::data {
namespace {

// Frees zlib's state on every way out.
struct Inflater {
  z_stream stream{};
  bool ready =
      inflateInit2(&stream, MAX_WBITS + 16) == Z_OK;  // + 16: gzip's header and checksum, nothing else
  Inflater() = default;
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

Result<std::vector<std::uint8_t>> gunzip(std::span<const std::uint8_t> packed,
                                         const std::filesystem::path& path, std::size_t most_bytes) {
  const auto bad = [&](std::string_view what) {
    return fail(ExitCode::kConfig, str(path.string(), what), "the download is damaged; get the file again");
  };
  Inflater inflater;
  if (!inflater.ready) return fail("zlib cannot start: out of memory?");
  if (packed.size() > std::numeric_limits<uInt>::max())
    return bad(" is too large for a gzip file of this data set");
  z_stream& stream = inflater.stream;
  stream.next_in = const_cast<Bytef*>(packed.data());  // zlib reads it only
  stream.avail_in = static_cast<uInt>(packed.size());

  std::vector<std::uint8_t> out;
  std::vector<std::uint8_t> piece(std::size_t{1} << 18);
  while (true) {
    stream.next_out = piece.data();
    stream.avail_out = static_cast<uInt>(piece.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    out.insert(out.end(), piece.data(), stream.next_out);
    if (out.size() > most_bytes) return bad(" unpacks to far more than such a file can hold");
    if (code == Z_STREAM_END) {
      if (stream.avail_in == 0) return out;
      if (inflateReset(&stream) != Z_OK) return bad(" is not a valid gzip file");
    } else if (code == Z_BUF_ERROR || (code == Z_OK && stream.avail_in == 0 && stream.avail_out != 0)) {
      return bad(" ends in the middle of its gzip data");
    } else if (code != Z_OK) {
      return bad(
          str(" is not a valid gzip file (", stream.msg != nullptr ? stream.msg : "unknown error", ")"));
    }
  }
}

}  // namespace rekindle::data
