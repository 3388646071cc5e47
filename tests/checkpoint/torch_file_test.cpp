// Checks the layout for torch.load directly. tests/oracle/check_torch.py uses PyTorch as the oracle.
#include <zlib.h>

#include <cstring>
#include <map>

#include "checkpoint/pickle.hpp"
#include "checkpoint/stored_zip.hpp"
#include "checkpoint/tensor_file.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

// A reader of stored zip files that begins at the end of the file, as other readers do.
class Zip {
 public:
  explicit Zip(std::string bytes) : bytes_(std::move(bytes)) { read_directory(); }

  struct Entry {
    std::uint64_t offset = 0, data = 0, size = 0;
    std::uint32_t crc = 0;
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }
  std::string content(const std::string& name) const {
    const Entry& entry = entries_.at(name);
    return bytes_.substr(entry.data, entry.size);
  }

 private:
  template <class Number>
  Number at(std::size_t offset) const {
    Number number = 0;
    if (offset + sizeof number > bytes_.size()) throw std::out_of_range("zip");
    std::memcpy(&number, bytes_.data() + offset, sizeof number);
    return number;
  }
  std::uint16_t u16(std::size_t offset) const { return at<std::uint16_t>(offset); }
  std::uint32_t u32(std::size_t offset) const { return at<std::uint32_t>(offset); }
  std::uint64_t u64(std::size_t offset) const { return at<std::uint64_t>(offset); }

  void read_directory() {
    const std::size_t end = bytes_.size() - 22;
    EXPECT_EQ(u32(end), 0x06054b50U);
    std::uint64_t count = u16(end + 10), size = u32(end + 12), offset = u32(end + 16);
    if (offset == 0xffffffff) {
      EXPECT_EQ(u32(end - 20), 0x07064b50U);
      const std::uint64_t wide = u64(end - 12);
      EXPECT_EQ(u32(wide), 0x06064b50U);
      count = u64(wide + 32), size = u64(wide + 40), offset = u64(wide + 48);
      EXPECT_EQ(offset + size, wide);
    } else {
      EXPECT_EQ(offset + size, end);
    }
    for (std::uint64_t i = 0; i < count; ++i) offset = read_entry(offset);
  }

  std::uint64_t read_entry(std::uint64_t at) {
    EXPECT_EQ(u32(at), 0x02014b50U);
    EXPECT_EQ(u16(at + 10), 0U) << "stored";
    Entry entry{u32(at + 42), 0, u32(at + 24), u32(at + 16)};
    const std::uint64_t name_bytes = u16(at + 28), extra_bytes = u16(at + 30);
    const std::string name = bytes_.substr(at + 46, name_bytes);
    std::uint64_t extra = at + 46 + name_bytes + 4;  // offset of the zip64 field, if it exists
    if (u32(at + 24) == 0xffffffff) entry.size = u64(extra), extra += 16;
    if (u32(at + 42) == 0xffffffff) entry.offset = u64(extra);
    EXPECT_EQ(u32(entry.offset), 0x04034b50U) << name;
    EXPECT_EQ(bytes_.substr(entry.offset + 30, u16(entry.offset + 26)), name);
    EXPECT_EQ(u32(entry.offset + 14), entry.crc);
    entry.data = entry.offset + 30 + u16(entry.offset + 26) + u16(entry.offset + 28);
    entries_[name] = entry;
    return at + 46 + name_bytes + extra_bytes;
  }

  std::string bytes_;
  std::map<std::string, Entry> entries_;
};

using TorchFile = CheckpointTest;

TEST_F(TorchFile, HoldsEveryTensorStoredAlignedAndWithItsCrc) {
  const OwnedState owned(mixed_spec());
  const fs::path path = run_dir / "out.pt";
  ASSERT_TRUE(write_tensors(path, owned.state));
  const Zip zip(*read_text(path));
  EXPECT_EQ(zip.entries().size(), owned.state.size() + 3);
  EXPECT_EQ(zip.content("archive/version"), "3\n");
  EXPECT_EQ(zip.content("archive/byteorder"), "little");
  for (std::size_t i = 0; i < owned.state.size(); ++i) {
    const std::string content = zip.content("archive/data/" + std::to_string(i));
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(content)), owned.state[i].bytes)) << i;
  }
  for (const auto& [name, entry] : zip.entries()) {
    const std::string content = zip.content(name);
    EXPECT_EQ(entry.data % 64, 0U) << name;
    EXPECT_EQ(entry.crc, ::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()))
        << name;
  }
  const std::string pickle = zip.content("archive/data.pkl");
  EXPECT_TRUE(
      pickle.starts_with("\x80\x02"
                         "ccollections\nOrderedDict\n)R("));
  EXPECT_TRUE(pickle.ends_with("u."));
  EXPECT_NE(pickle.find("one_long_row"), std::string::npos);
}

TEST_F(TorchFile, EqualStates_MakeEqualFiles) {
  const OwnedState owned(small_spec()), again(small_spec());
  ASSERT_TRUE(write_tensors(run_dir / "a.pt", owned.state));
  ASSERT_TRUE(write_tensors(run_dir / "b.pt", again.state));
  EXPECT_EQ(*read_text(run_dir / "a.pt"), *read_text(run_dir / "b.pt"));
  EXPECT_EQ(files_in(run_dir), (std::vector<std::string>{"a.pt", "b.pt"}));
}

// Files of 4 GiB and more use zip64. This test sets the limit to 10 bytes.
TEST_F(TorchFile, LargeFiles_AreWrittenAsZip64) {
  const fs::path path = run_dir / "large.zip";
  auto zip = StoredZip::create(path, 10);
  ASSERT_TRUE(zip);
  const std::string small = "tiny", large(1000, 'x');
  ASSERT_TRUE(zip->add("first", std::as_bytes(std::span(small))));
  ASSERT_TRUE(zip->add("large", std::as_bytes(std::span(large))));
  ASSERT_TRUE(zip->add("small", std::as_bytes(std::span(small))));
  ASSERT_TRUE(zip->finish());
  const Zip read(*read_text(path));
  EXPECT_EQ(read.content("first"), small);
  EXPECT_EQ(read.content("large"), large);
  EXPECT_EQ(read.content("small"), small);
  EXPECT_EQ(read.entries().at("large").data % 64, 0U);
}

TEST_F(TorchFile, ATensorOfBillions_KeepsItsNumbers) {
  const std::string pickle =
      state_dict_pickle({{"huge", Dtype::kFloat32, {3, 3000000000}, Role::kParameter}});
  // LONG1 of 8 bytes, little-endian: 9000000000 elements; then 3 and 3000000000 rows; stride 3000000000.
  EXPECT_NE(pickle.find(std::string("\x8a\x08\x00\x1a\x71\x18\x02\x00\x00\x00", 10)), std::string::npos);
  EXPECT_NE(pickle.find(std::string("(J\x03\0\0\0\x8a\x08\x00\x5e\xd0\xb2\x00\x00\x00\x00t", 17)),
            std::string::npos);
}

TEST_F(TorchFile, ADirectoryThatIsNotThere_IsAnError) {
  EXPECT_FALSE(write_tensors(run_dir / "none/out.pt", OwnedState(small_spec()).state));
}

}  // namespace
}  // namespace rekindle::checkpoint
