// The files of board/page, which are in the program.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rekindle::board {

struct Part {
  std::string_view name, text;  // "page.js"
};
std::span<const Part> parts();
// nullptr: no such part.
const Part* find_part(std::string_view name);
std::string type_of(std::string_view name);  // of its content, by the end of its name

// run.html with its parts inside, and `data` (summary and curves) as JSON: a page in one file.
std::string page_in_one_file(const std::string& data);

}  // namespace rekindle::board
