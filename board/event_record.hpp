// The records of TensorBoard's event files.
//
// A file is a TFRecord file: each record is its length (8 bytes, little endian), the masked CRC-32C of these
// 8 bytes, its bytes, and their masked CRC-32C (RFC 3720, appendix B.4; the mask is that of
// tensorflow/core/lib/hash/crc32c.h). A record is one Event in protobuf's wire format
// (tensorboard/compat/proto/event.proto and summary.proto).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rekindle::board {

struct Moment {
  double wall_time = 0;    // seconds since 1970
  std::uint64_t step = 0;  // at most INT64_MAX
};

// Without it TensorBoard does not read Starts as such.
std::string encode_version(double wall_time);
// SessionLog.START: TensorBoard forgets the values of this step and of all later ones.
std::string encode_start(const Moment& at);
std::string encode_scalars(const Moment& at, const std::vector<std::pair<std::string, double>>& values);
// `text` is Markdown.
std::string encode_text(const Moment& at, const std::string& tag, const std::string& text);

struct ReadEvent {
  std::uint64_t step = 0;
  bool start = false;     // SessionLog.START
  std::string first_tag;  // of its values; empty: there is none
};
// Nullopt: this is no Event.
std::optional<ReadEvent> decode(std::string_view event);

// CRC-32C.
std::uint32_t crc32c(std::string_view bytes);
// The record with this content.
std::string framed(std::string_view event);

inline constexpr std::size_t kHeaderBytes = 12, kFooterBytes = 4;
inline constexpr std::uint64_t kMostRecordBytes = std::uint64_t{1} << 24;
// The length of a record's content, from the kHeaderBytes at its begin. Nullopt: this is no header.
std::optional<std::size_t> length_in(std::string_view header);

}  // namespace rekindle::board
