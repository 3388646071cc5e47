// Whether a file is the one that was there before.
#pragma once

#include <string>

#include "base/file_path.hpp"

namespace rekindle {

// Another text each time that the file was written or replaced, also with the same content. Empty: there is
// none. Only the metadata are looked at, because the file may be large.
std::string file_version(const FilePath& path);

}  // namespace rekindle
