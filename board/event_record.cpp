#include "board/event_record.hpp"

#include <array>
#include <bit>

namespace rekindle::board {
namespace {

// Wire types. Source: protobuf.dev/programming-guides/encoding
enum Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Field numbers. Source: event.proto, summary.proto, tensor.proto, tensor_shape.proto
enum EventField : std::uint8_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SessionLogField : std::uint8_t { kStatus = 1 };
enum SummaryField : std::uint8_t { kValue = 1 };
enum ValueField : std::uint8_t { kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9 };
enum MetadataField : std::uint8_t { kPluginData = 1, kDataClass = 4 };
enum PluginDataField : std::uint8_t { kPluginName = 1 };
enum TensorField : std::uint8_t { kType = 1, kShape = 2, kStringValue = 8 };
enum ShapeField : std::uint8_t { kDimension = 2 };
enum DimensionField : std::uint8_t { kSize = 1 };
constexpr std::uint64_t kStart = 1;            // SessionLog.START
constexpr std::uint64_t kStringType = 7;       // DT_STRING
constexpr std::uint64_t kTensorDataClass = 2;  // DATA_CLASS_TENSOR

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

template <class Number>
Number from_little_endian(std::string_view bytes) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i)
    number |= static_cast<Number>(static_cast<std::uint8_t>(bytes[i])) << (8 * i);
  return number;
}

std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}

std::string key(int field, Wire wire) { return varint(static_cast<std::uint64_t>(field) << 3 | wire); }
std::string whole(int field, std::uint64_t number) { return key(field, kVarint) + varint(number); }
std::string real(int field, double number) {
  return key(field, kFixed64) + little_endian(std::bit_cast<std::uint64_t>(number));
}
std::string real32(int field, float number) {
  return key(field, kFixed32) + little_endian(std::bit_cast<std::uint32_t>(number));
}
std::string bytes(int field, std::string_view content) {
  return key(field, kBytes) + varint(content.size()) + std::string(content);
}

std::string encode_moment(const Moment& at) { return real(kWallTime, at.wall_time) + whole(kStep, at.step); }

// Takes the fields of a message from its front.
class Fields {
 public:
  explicit Fields(std::string_view message) : left_(message) {}

  struct Field {
    std::uint64_t number = 0, value = 0;  // value: of a varint
    std::string_view content;             // of bytes
  };
  // Nullopt at the end, and if the rest is no field.
  std::optional<Field> next() {
    const auto key = ended() ? std::nullopt : take_varint();
    if (!key) return std::nullopt;
    Field field{.number = *key >> 3, .value = 0, .content = {}};
    switch (*key & 7) {
      case kVarint: {
        const auto value = take_varint();
        field.value = value.value_or(0);
        return value ? std::optional(field) : std::nullopt;
      }
      case kFixed64:
        return take(8) ? std::optional(field) : std::nullopt;
      case kFixed32:
        return take(4) ? std::optional(field) : std::nullopt;
      case kBytes: {
        const auto size = take_varint();
        const auto content = size ? take(*size) : std::nullopt;
        field.content = content.value_or("");
        return content ? std::optional(field) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }
  bool ended() const { return left_.empty(); }

 private:
  std::optional<std::uint64_t> take_varint() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = take(1);
      if (!byte) break;
      number |= std::uint64_t{static_cast<std::uint8_t>(byte->front())} % 0x80 << shift;
      if (static_cast<std::uint8_t>(byte->front()) < 0x80) return number;
    }
    left_ = "?";  // no end, so that ended() is false
    return std::nullopt;
  }
  std::optional<std::string_view> take(std::uint64_t size) {
    if (size > left_.size()) return std::nullopt;
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
};

std::optional<Fields::Field> field_of(std::string_view message, std::uint64_t number) {
  Fields fields(message);
  while (const auto field = fields.next())
    if (field->number == number) return field;
  return std::nullopt;
}

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  constexpr std::uint32_t kReversedCastagnoli = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc % 2 != 0 ? kReversedCastagnoli : 0);
    table[i] = crc;
  }
  return table;
}();

std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

}  // namespace

std::string encode_version(double wall_time) {
  return real(kWallTime, wall_time) + bytes(kFileVersion, "brain.Event:2");
}

std::string encode_start(const Moment& at) {
  return encode_moment(at) + bytes(kSessionLog, whole(kStatus, kStart));
}

std::string encode_scalars(const Moment& at, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [tag, value] : values)
    summary += bytes(kValue, bytes(kTag, tag) + real32(kSimpleValue, static_cast<float>(value)));
  return encode_moment(at) + bytes(kSummary, summary);
}

std::string encode_text(const Moment& at, const std::string& tag, const std::string& text) {
  const std::string shape = bytes(kDimension, whole(kSize, 1)),
                    tensor = whole(kType, kStringType) + bytes(kShape, shape) + bytes(kStringValue, text),
                    metadata =
                        bytes(kPluginData, bytes(kPluginName, "text")) + whole(kDataClass, kTensorDataClass),
                    value = bytes(kTag, tag) + bytes(kTensor, tensor) + bytes(kMetadata, metadata);
  return encode_moment(at) + bytes(kSummary, bytes(kValue, value));
}

std::optional<ReadEvent> decode(std::string_view event) {
  ReadEvent read;
  Fields fields(event);
  while (const auto field = fields.next()) {
    if (field->number == kStep) read.step = field->value;
    if (field->number == kSessionLog) {
      const auto status = field_of(field->content, kStatus);
      read.start = status && status->value == kStart;
    }
    if (field->number == kSummary) {
      const auto value = field_of(field->content, kValue);
      const auto tag = value ? field_of(value->content, kTag) : std::nullopt;
      if (tag) read.first_tag = tag->content;
    }
  }
  return fields.ended() ? std::optional(read) : std::nullopt;
}

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<std::uint8_t>(byte)) % 256];
  return ~crc;
}

std::string framed(std::string_view event) {
  const std::string length = little_endian(std::uint64_t{event.size()});
  return length + little_endian(masked_crc(length)) + std::string(event) + little_endian(masked_crc(event));
}

std::optional<std::size_t> length_in(std::string_view header) {
  if (header.size() < kHeaderBytes) return std::nullopt;
  const auto length = from_little_endian<std::uint64_t>(header);
  if (from_little_endian<std::uint32_t>(header.substr(8)) != masked_crc(header.substr(0, 8)) ||
      length > kMostRecordBytes)
    return std::nullopt;
  return length;
}

}  // namespace rekindle::board
