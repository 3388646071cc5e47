// How this room's errors say what kind they are: by Error::what, whose telling part is written and read in
// failure.cpp and nowhere else. Callers ask is_damage() and is_changed_state() of checkpoint.hpp.
#pragma once

#include <string_view>
#include "base/file_path.hpp"

#include "base/result.hpp"

namespace rekindle::checkpoint {

// What is on storage is not what was written there.
inline constexpr std::string_view kNotCommitted = " is not a committed checkpoint";
Error damaged_error(const FilePath& path, std::string_view why);
Error no_manifest_error(const FilePath& checkpoint_dir);

inline tl::unexpected<Error> damaged(const FilePath& path, std::string_view why) {
  return forward_error(damaged_error(path, why));
}

// The memory that is to be written is not what it was when it was hashed.
Error changed_state_error();

}  // namespace rekindle::checkpoint
