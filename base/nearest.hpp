// The known name nearest to a mistyped one, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rekindle {

// By edit distance (insert, delete, replace, swap of neighbours); empty if `names` is.
std::string nearest_name(std::string_view word, std::span<const std::string> names);

}  // namespace rekindle
