// libpng reports errors with longjmp(). Nothing with a destructor lives in the functions that are left.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "data/decode.hpp"

namespace rekindle::data {
namespace {

class Decoder {
 public:
  explicit Decoder(std::span<const std::uint8_t> bytes)
      : bytes_(bytes),
        png_(png_create_read_struct_2(
            PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {}, this, allocate,
            nullptr)),
        info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }

  // These return false after an error.
  bool read_header() {
    if (info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, on_read);
    // Only the chunks that make pixels: libpng would unpack and keep 1000 texts of 8 MB from 8 kB each.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);  // also where no pixels are, as PIL
    png_read_info(png_, info_);
    return true;
  }
  bool read_pixels(std::vector<png_bytep>& rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_palette_to_rgb(png_);
    png_set_strip_16(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_filler(png_, 0xff, PNG_FILLER_AFTER);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != std::size_t{width()} * kPixelBytes) return false;
    png_read_image(png_, rows.data());
    return true;
  }

  std::uint32_t width() const { return png_get_image_width(png_, info_); }
  std::uint32_t height() const { return png_get_image_height(png_, info_); }
  bool is_grey_of_16_bits() const {
    return png_get_bit_depth(png_, info_) == 16 && png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY;
  }
  std::string message() const { return printable(message_); }
  bool lacks_memory() const { return lacks_memory_; }

 private:
  static png_voidp allocate(png_structp png, png_alloc_size_t bytes) {
    png_voidp memory = std::malloc(bytes);
    if (memory == nullptr) static_cast<Decoder*>(png_get_mem_ptr(png))->lacks_memory_ = true;
    return memory;
  }
  static void on_error(png_structp png, png_const_charp message) {
    auto& self = *static_cast<Decoder*>(png_get_error_ptr(png));
    std::strncpy(self.message_, message, sizeof self.message_ - 1);
    png_longjmp(png, 1);
  }
  static void on_read(png_structp png, png_bytep out, std::size_t count) {
    auto& self = *static_cast<Decoder*>(png_get_io_ptr(png));
    if (count > self.bytes_.size() - self.at_) png_error(png, "the file ends too early");
    std::memcpy(out, self.bytes_.data() + self.at_, count);
    self.at_ += count;
  }

  const std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  char message_[200] = "";
  bool lacks_memory_ = false;
  png_structp png_;
  png_infop info_;
};

}  // namespace

Status decode_png(std::span<const std::uint8_t> bytes, const std::string& source, Pixels& pixels) {
  Decoder decoder(bytes);
  const auto bad = [&] {
    if (decoder.lacks_memory()) throw std::bad_alloc();
    return corrupt_image(source, str("is a damaged PNG file (", decoder.message(), ")"));
  };
  if (!decoder.read_header()) return bad();
  // PIL makes white of almost every pixel. Of other files it takes the upper 8 bits.
  if (decoder.is_grey_of_16_bits())
    return corrupt_image(source, "is a grey PNG file of 16 bits, and only 8 are read",
                         "convert it to 8 bits, and start a new run");
  const std::size_t width = decoder.width(), height = decoder.height();
  REKINDLE_CHECK(check_pixels(width, height, source));
  pixels.size = {static_cast<int>(height), static_cast<int>(width)};
  pixels.bytes.resize(width * height * kPixelBytes);
  std::vector<png_bytep> rows(height);
  for (std::size_t y = 0; y < height; ++y) rows[y] = pixels.bytes.data() + y * width * kPixelBytes;
  if (!decoder.read_pixels(rows)) return bad();
  return {};
}

}  // namespace rekindle::data
