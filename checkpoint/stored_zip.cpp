#include "checkpoint/stored_zip.hpp"

#include <fcntl.h>
#include <zlib.h>

#include "base/text.hpp"
#include "checkpoint/pieces.hpp"

namespace rekindle::checkpoint {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kLocalHeaderBytes = 30, kExtraHeaderBytes = 4;
constexpr std::uint64_t kNarrowEntries = 0xffff, kNarrowBytes = 0xffffffff;
constexpr std::uint16_t kPlain = 20, kZip64 = 45;  // the version of the format that a reader must support
constexpr std::uint16_t kFirstDay = 0x21;          // 1980-01-01, so that equal states make equal files

// Little-endian fields, one after the other.
class Record {
 public:
  Record& u16(std::uint64_t value) { return put(value, 2); }
  Record& u32(std::uint64_t value) { return put(value, 4); }
  Record& u64(std::uint64_t value) { return put(value, 8); }
  Record& text(const std::string& value) {
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& put(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

std::string extra_field(std::uint16_t id, const std::string& content) {
  return Record().u16(id).u16(content.size()).text(content).bytes();
}

std::string zip64_field(const std::string& content) {
  constexpr std::uint16_t kZip64Field = 1;
  return content.empty() ? content : extra_field(kZip64Field, content);
}

}  // namespace

Result<StoredZip> StoredZip::create(const FilePath& path, std::uint64_t zip64_from) {
  REKINDLE_TRY(Fd fd, open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  return StoredZip(std::move(fd), path, zip64_from);
}

Status StoredZip::append(std::span<const std::byte> bytes) {
  REKINDLE_CHECK(write_piece(fd_.get(), path_, end_, bytes));
  end_ += bytes.size();
  return {};
}

Status StoredZip::append(const std::string& text) { return append(std::as_bytes(std::span(text))); }

// The value of a 32-bit field: all ones mean that the value is in the zip64 field.
std::uint64_t StoredZip::narrow(std::uint64_t value) const { return large(value) ? kNarrowBytes : value; }

std::string StoredZip::description(const Entry& entry, const std::string& extra) const {
  return Record()
      .u16(0)  // flags
      .u16(0)  // stored
      .u16(0)
      .u16(kFirstDay)
      .u32(entry.crc)
      .u32(narrow(entry.bytes))
      .u32(narrow(entry.bytes))
      .u16(entry.name.size())
      .u16(extra.size())
      .bytes();
}

std::string StoredZip::local_header(const Entry& entry) const {
  std::string extra =
      zip64_field(large(entry.bytes) ? Record().u64(entry.bytes).u64(entry.bytes).bytes() : "");
  // Padding, in the same field as torch.save uses.
  constexpr std::uint16_t kPaddingField = 0x4246;
  const std::uint64_t data =
      entry.offset + kLocalHeaderBytes + entry.name.size() + extra.size() + kExtraHeaderBytes;
  extra += extra_field(kPaddingField, std::string((kAlignment - data % kAlignment) % kAlignment, 'Z'));
  return Record()
      .u32(0x04034b50)
      .u16(large(entry.bytes) ? kZip64 : kPlain)
      .text(description(entry, extra))
      .text(entry.name)
      .text(extra)
      .bytes();
}

std::string StoredZip::directory_entry(const Entry& entry) const {
  Record wide;
  if (large(entry.bytes)) wide.u64(entry.bytes).u64(entry.bytes);
  if (large(entry.offset)) wide.u64(entry.offset);
  const std::string extra = zip64_field(wide.bytes());
  const std::uint16_t version = extra.empty() ? kPlain : kZip64;
  return Record()
      .u32(0x02014b50)
      .u16(version)
      .u16(version)
      .text(description(entry, extra))
      .u16(0)  // comment
      .u16(0)  // disk
      .u16(0)
      .u32(0)
      .u32(narrow(entry.offset))
      .text(entry.name)
      .text(extra)
      .bytes();
}

std::string StoredZip::end_of_directory(std::uint64_t begin, std::uint64_t bytes) const {
  const std::uint64_t count = entries_.size();
  Record end;
  const bool wide = large(begin) || large(bytes) || count >= kNarrowEntries;
  if (wide) {
    constexpr std::uint64_t kRestOfRecord = 44;
    end.u32(0x06064b50).u64(kRestOfRecord).u16(kZip64).u16(kZip64).u32(0).u32(0);
    end.u64(count).u64(count).u64(bytes).u64(begin);
    end.u32(0x07064b50).u32(0).u64(begin + bytes).u32(1);  // the offset of the record above
  }
  const std::uint64_t narrow_count = wide ? kNarrowEntries : count;
  end.u32(0x06054b50).u16(0).u16(0).u16(narrow_count).u16(narrow_count);
  end.u32(wide ? kNarrowBytes : bytes).u32(wide ? kNarrowBytes : begin).u16(0);
  return end.bytes();
}

Status StoredZip::add(const std::string& name, std::span<const std::byte> bytes) {
  return add(name, bytes.size(), [bytes](const Visit& visit) { return visit(bytes); });
}

// The checksum comes before the data in the file, so the data are read twice.
Status StoredZip::add(const std::string& name, std::uint64_t bytes,
                      const std::function<Status(const Visit&)>& each) {
  uLong first = ::crc32_z(0, nullptr, 0), second = first;
  const auto sum = [](uLong crc, std::span<const std::byte> piece) {
    return ::crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
  };
  REKINDLE_CHECK(each([&](std::span<const std::byte> piece) -> Status {
    first = sum(first, piece);
    return {};
  }));
  const Entry entry{name, bytes, end_, static_cast<std::uint32_t>(first)};
  REKINDLE_CHECK(append(local_header(entry)));
  REKINDLE_CHECK(each([&](std::span<const std::byte> piece) -> Status {
    second = sum(second, piece);
    return append(piece);
  }));
  if (first != second) return fail(str(name, " changed while ", path_.string(), " was written"));
  entries_.push_back(entry);
  return {};
}

Status StoredZip::finish() {
  const std::uint64_t begin = end_;
  for (const Entry& entry : entries_) REKINDLE_CHECK(append(directory_entry(entry)));
  REKINDLE_CHECK(append(end_of_directory(begin, end_ - begin)));
  REKINDLE_CHECK(sync_file(fd_.get(), path_));
  return fd_.close(path_);
}

}  // namespace rekindle::checkpoint
