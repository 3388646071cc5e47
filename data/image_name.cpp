#include "data/image_name.hpp"

#include <cctype>
#include <filesystem>

namespace rekindle::data {

namespace fs = std::filesystem;

NameKind kind_of(const std::string& name) {
  std::string extension = fs::path(name).extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* known : {".jpg", ".jpeg", ".png"})
    if (extension == known) return NameKind::kImage;
  // The other ones of torchvision's ImageFolder.
  for (const char* other : {".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"})
    if (extension == other) return NameKind::kOtherImage;
  return NameKind::kNone;
}

}  // namespace rekindle::data
