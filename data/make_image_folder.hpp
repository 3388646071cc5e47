// Makes a small image folder in the layout of TinyImageNet. Internal to data/.
#pragma once

#include <filesystem>

#include "data/dataset.hpp"

namespace rekindle::data {

Result<MadeData> make_image_folder(const std::filesystem::path& folder, std::size_t samples,
                                   std::uint64_t seed);

}  // namespace rekindle::data
