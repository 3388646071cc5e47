// What a terminal can show.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace rekindle::view {

bool is_terminal(std::FILE* out);
// Columns that a line may have without being wrapped; `otherwise` if `out` is no terminal.
std::size_t columns_of(std::FILE* out, std::size_t otherwise);
// Lines of the terminal; `otherwise` if `out` is none.
std::size_t rows_of(std::FILE* out, std::size_t otherwise);
// Whether the locale's characters are UTF-8.
bool shows_unicode();

enum class Colour { kNone, kDim, kYellow, kRed };
// `text` in a colour. Only for terminals, and not if NO_COLOR is set (no-color.org).
std::string coloured(std::string_view text, Colour colour);
bool wants_colour(std::FILE* out);

// `line` as lines of at most `width` characters, broken at spaces; those after the first begin with `indent`
// spaces.
std::string folded(std::string_view line, std::size_t width, std::size_t indent);

}  // namespace rekindle::view
