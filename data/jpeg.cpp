// libjpeg reports errors by a function that must not return, so that it is left with longjmp(). Nothing with
// a destructor lives in the functions that are left.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <new>
//
#include <jerror.h>
#include <jpeglib.h>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "data/decode.hpp"

namespace rekindle::data {
namespace {

constexpr int kMostScans = 500;  // a few bytes of a progressive file may take a pass over the image each

struct Handler {
  jpeg_error_mgr errors{};  // first: libjpeg passes a pointer to it
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = "";
  bool lacks_memory = false;
};

Handler& handler_of(j_common_ptr info) { return *reinterpret_cast<Handler*>(info->err); }

// Of the codes that libjpeg has for this, the two that libjpeg-turbo uses.
bool is_lack_of_memory(int code) { return code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE; }

[[noreturn]] void leave(j_common_ptr info) {
  handler_of(info).lacks_memory = is_lack_of_memory(info->err->msg_code);
  info->err->format_message(info, handler_of(info).message);
  std::longjmp(handler_of(info).jump, 1);
}

// PIL refuses files that end too early, and ignores all other warnings. So does this.
void warn(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave(info);
}

void limit_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  std::snprintf(handler_of(info).message, JMSG_LENGTH_MAX, "more than %d scans", kMostScans);
  std::longjmp(handler_of(info).jump, 1);
}

class Decoder {
 public:
  Decoder() {
    info_.err = jpeg_std_error(&handler_.errors);
    handler_.errors.error_exit = leave;
    handler_.errors.emit_message = warn;
    progress_.progress_monitor = limit_scans;
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info_); }

  // These return false after an error.
  bool read_header(std::span<const std::uint8_t> bytes) {
    if (setjmp(handler_.jump) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, bytes.data(), bytes.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  bool read_pixels(std::uint8_t* out) {
    if (setjmp(handler_.jump) != 0) return false;
    info_.out_color_space = is_cmyk() ? JCS_CMYK : JCS_EXT_RGBX;
    jpeg_start_decompress(&info_);
    const std::size_t row = std::size_t{info_.output_width} * kPixelBytes;
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW at = out + info_.output_scanline * row;
      jpeg_read_scanlines(&info_, &at, 1);
    }
    jpeg_finish_decompress(&info_);  // PIL also refuses files with damage behind the pixels
    return true;
  }

  bool is_cmyk() const { return info_.num_components == 4; }
  std::uint64_t width() const { return info_.image_width; }
  std::uint64_t height() const { return info_.image_height; }
  std::string message() const { return printable(handler_.message); }
  bool lacks_memory() const { return handler_.lacks_memory; }

 private:
  Handler handler_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
};

// a * b / 255, rounded (PIL's MULDIV255).
unsigned scaled(unsigned a, unsigned b) {
  const unsigned product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// PIL takes every CMYK JPEG for an inverted one, as Adobe writes them.
void cmyk_to_rgb(std::vector<std::uint8_t>& pixels) {
  for (std::size_t at = 0; at < pixels.size(); at += kPixelBytes) {
    const unsigned light = pixels[at + 3];
    for (std::size_t c = 0; c < 3; ++c)
      pixels[at + c] = static_cast<std::uint8_t>(light - scaled(255U - pixels[at + c], light));
  }
}

}  // namespace

Status decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& source, Pixels& pixels) {
  Decoder decoder;
  const auto bad = [&] {
    if (decoder.lacks_memory()) throw std::bad_alloc();
    return corrupt_image(source, str("is a damaged JPEG file (", decoder.message(), ")"));
  };
  if (!decoder.read_header(bytes)) return bad();
  REKINDLE_CHECK(check_pixels(decoder.width(), decoder.height(), source));
  pixels.size = {static_cast<int>(decoder.height()), static_cast<int>(decoder.width())};
  pixels.bytes.resize(decoder.width() * decoder.height() * kPixelBytes);
  if (!decoder.read_pixels(pixels.bytes.data())) return bad();
  if (decoder.is_cmyk()) cmyk_to_rgb(pixels.bytes);
  return {};
}

}  // namespace rekindle::data
