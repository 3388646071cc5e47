#include "data/gunzip.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "base/text.hpp"

namespace rekindle::data {

// Frees zlib's state on every return.
struct Unpacker::Inflater {
  z_stream stream{};
  bool ready = inflateInit2(&stream, MAX_WBITS + 16) == Z_OK;  // + 16: accept only gzip's header and checksum
  std::array<std::uint8_t, 65536> packed;

  Inflater() = default;
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

Unpacker::Unpacker(const InputFile& file) : file_(file), inflater_(std::make_unique<Inflater>()) {}
Unpacker::~Unpacker() = default;

Status Unpacker::refill() {
  z_stream& stream = inflater_->stream;
  const auto piece =
      std::span(inflater_->packed).first(std::min<std::uint64_t>(inflater_->packed.size(), file_.size - at_));
  REKINDLE_CHECK(file_.read(at_, std::as_writable_bytes(piece)));
  at_ += piece.size();
  stream.next_in = piece.data();
  stream.avail_in = static_cast<uInt>(piece.size());
  return {};
}

Result<std::size_t> Unpacker::read(std::span<std::uint8_t> out) {
  const auto bad = [this](std::string_view what) {
    return fail(ExitCode::kConfig, str(file_.path.string(), what),
                "the download is damaged; get the file again");
  };
  if (!inflater_->ready) return fail("zlib cannot start: out of memory?");
  z_stream& stream = inflater_->stream;
  std::size_t filled = 0;
  while (filled < out.size() && !ended_) {
    if (stream.avail_in == 0) REKINDLE_CHECK(refill());
    const auto room = std::min<std::size_t>(out.size() - filled, std::numeric_limits<uInt>::max());
    stream.next_out = out.data() + filled;
    stream.avail_out = static_cast<uInt>(room);
    const int code = inflate(&stream, Z_NO_FLUSH);
    filled += room - stream.avail_out;
    const bool nothing_left = stream.avail_in == 0 && at_ == file_.size;
    if (code == Z_STREAM_END) {
      ended_ = nothing_left;
      if (!ended_ && inflateReset(&stream) != Z_OK) return bad(" is not a valid gzip file");
    } else if (nothing_left && stream.avail_out != 0 && (code == Z_OK || code == Z_BUF_ERROR)) {
      return bad(" ends in the middle of its gzip data");
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return bad(
          str(" is not a valid gzip file (", stream.msg != nullptr ? stream.msg : "unknown error", ")"));
    }
  }
  return filled;
}

}  // namespace rekindle::data
