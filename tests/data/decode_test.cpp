// Pixels are those of PIL: golden/images is made by tests/oracle/pil_decode.py.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <tuple>

#include "data/decode.hpp"
#include "support.hpp"

namespace rekindle::data {
namespace {

const fs::path kImages = fs::path(REKINDLE_GOLDEN) / "images";

Status decoded(const std::string& bytes, Pixels& pixels) {
  return decode_image({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, "FILE", pixels);
}

std::string refusal(const std::string& bytes) {
  Pixels pixels;
  const Status status = decoded(bytes, pixels);
  if (status) return "decoded";
  EXPECT_EQ(status.error().code, ExitCode::kConfig);
  EXPECT_EQ(status.error().kind, ErrorKind::kDamage);
  EXPECT_FALSE(status.error().hint.empty());
  EXPECT_EQ(status.error().line().find('\n'), std::string::npos) << status.error().line();
  return status.error().what;
}

TEST(DecodeImage, EveryKindHasPilsPixels) {
  int kinds = 0;
  for (const auto& entry : fs::directory_iterator(kImages)) {
    if (entry.path().extension() != ".rgb") continue;
    SCOPED_TRACE(entry.path());
    const std::string expected = get(entry.path());
    Pixels pixels;
    const Status status = decoded(get(fs::path(entry.path()).replace_extension("")), pixels);
    ASSERT_TRUE(status) << status.error().line();
    ASSERT_EQ(pixels.size.width, 37);
    ASSERT_EQ(pixels.size.height, 29);
    int worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const int mine = pixels.bytes[i / 3 * kPixelBytes + i % 3];
      worst = std::max(worst, std::abs(mine - int{static_cast<std::uint8_t>(expected[i])}));
    }
    EXPECT_LE(worst, 1);
    ++kinds;
  }
  EXPECT_EQ(kinds, 14);
}

TEST(DecodeImage, BytesAfterTheImageAreIgnored) {
  for (const char* name : {"420.jpg", "progressive.jpg", "colour.png"}) {
    Pixels plain, more;
    ASSERT_TRUE(decoded(get(kImages / name), plain));
    ASSERT_TRUE(decoded(get(kImages / name) + std::string(1000, 'x'), more));
    EXPECT_EQ(more.bytes, plain.bytes) << name;
  }
}

std::string big_endian(std::size_t word) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(word >> shift & 0xffU));
  return bytes;
}

// Source: PNG specification, 11.3.4.3.
std::string compressed_text(std::size_t bytes) {
  const std::string text(bytes, 'x'), name("zTXtname\0\0", 10);
  std::string packed(compressBound(bytes), '\0');
  uLongf size = packed.size();
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(text.data()), bytes),
            Z_OK);
  const std::string chunk = name + packed.substr(0, size);
  return big_endian(chunk.size() - 4) + chunk + big_endian(crc(std::span<const char>(chunk)));
}

std::size_t most_memory() {  // bytes
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

TEST(DecodeImage, TextsInAPngFileTakeNoMemory) {
  constexpr std::size_t kHeader = 33, kTexts = 100, kText = 7'900'000;
  const std::string good = get(kImages / "colour.png"), text = compressed_text(kText);
  std::string many = good.substr(0, kHeader);
  for (std::size_t i = 0; i < kTexts; ++i) many += text;
  many += good.substr(kHeader);
  Pixels pixels, expected;
  ASSERT_TRUE(decoded(good, expected));
  const std::size_t before = most_memory();
  const Status status = decoded(many, pixels);
  EXPECT_LT(most_memory(), before + kTexts * kText / 4);
  ASSERT_TRUE(status) << status.error().line();
  EXPECT_EQ(pixels.bytes, expected.bytes);
  many[kHeader + 20] ^= 1;
  EXPECT_NE(refusal(many), "decoded") << "a chunk's checksum is wrong";
}

TEST(DecodeImage, TruncatedAndDamagedFilesAreRefused) {
  for (const char* name : {"420.jpg", "progressive.jpg", "cmyk.jpg"}) {
    const std::string good = get(kImages / name);
    for (std::size_t left = 3; left < good.size() - 40; left += 17)
      EXPECT_NE(refusal(good.substr(0, left)).find("FILE is a damaged JPEG file ("), std::string::npos)
          << name << " " << left;
    EXPECT_EQ(refusal(good.substr(0, good.size() - 1)),
              "FILE is a damaged JPEG file (Premature end of JPEG file)")
        << name << ": PIL needs the end marker, too";
    EXPECT_EQ(refusal(good.substr(0, 2) + "x" + good.substr(2)), "FILE is neither a JPEG nor a PNG file");
  }
  std::string png = get(kImages / "colour.png");
  for (std::size_t left = 9; left < png.size() - 16; left += 17)
    EXPECT_NE(refusal(png.substr(0, left)).find("FILE is a damaged PNG file ("), std::string::npos) << left;
  png[png.size() / 2] ^= 1;
  EXPECT_NE(refusal(png).find("FILE is a damaged PNG file ("), std::string::npos);
  png = get(kImages / "transparent.png");
  png[png.find("tRNS") + 4] ^= 1;
  EXPECT_EQ(refusal(png), "FILE is a damaged PNG file (tRNS: CRC error)") << "PIL looks at it, too";
  EXPECT_EQ(refusal(""), "FILE is empty");
  EXPECT_EQ(refusal("GIF89a..."), "FILE is neither a JPEG nor a PNG file");
  EXPECT_EQ(refusal(get(kImages / "16_bits.png")), "FILE is a grey PNG file of 16 bits, and only 8 are read");
}

// With --skip-corrupt another image would take the place of a file without damage.
TEST(DecodeImage, TooLittleMemoryIsNoDamage) {
  std::string large = get(kImages / "progressive.jpg");
  const std::size_t frame = large.find("\xff\xc2");  // SOF2: length, bits, height, width
  ASSERT_NE(frame, std::string::npos);
  large.replace(frame + 5, 4, "\x04\x10\x04\x10");
  Pixels pixels;
  ::setenv("JPEGMEM", "1", 1);  // libjpeg's own limit, in kB
  EXPECT_THROW(std::ignore = decoded(large, pixels), std::bad_alloc);
  ::unsetenv("JPEGMEM");
  EXPECT_TRUE(decoded(large, pixels));
}

TEST(DecodeImage, TooManyPixelsAreRefusedByTheHeader) {
  std::string jpeg = get(kImages / "420.jpg");
  const std::size_t frame = jpeg.find("\xff\xc0");  // SOF0: length, bits, height, width
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xea\x60\xea\x60");  // 60000 x 60000
  EXPECT_EQ(refusal(jpeg), "FILE has 60000 x 60000 pixels, and 89478485 are the most that are read");
  std::string png = get(kImages / "colour.png");
  png.replace(16, 8, std::string("\0\0\xea\x60\0\0\xea\x60", 8));
  const auto sum = static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 12, 17));
  for (int i = 0; i < 4; ++i) png[29 + static_cast<std::size_t>(i)] = static_cast<char>(sum >> (24 - 8 * i));
  EXPECT_EQ(refusal(png), "FILE has 60000 x 60000 pixels, and 89478485 are the most that are read");
}

}  // namespace
}  // namespace rekindle::data
