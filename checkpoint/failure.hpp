// Errors of this module that callers distinguish.
#pragma once

#include <string_view>
#include "base/file_path.hpp"

#include "base/result.hpp"

namespace rekindle::checkpoint {

// The bytes on storage differ from the bytes that were written.
inline constexpr std::string_view kNotCommitted = " is not a committed checkpoint";
Error damaged_error(const FilePath& path, std::string_view why);
Error no_manifest_error(const FilePath& checkpoint_dir);

inline tl::unexpected<Error> damaged(const FilePath& path, std::string_view why) {
  return forward_error(damaged_error(path, why));
}

// The memory to write has changed since it was hashed.
Error changed_state_error();

}  // namespace rekindle::checkpoint
