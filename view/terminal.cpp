#include "view/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/process.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace rekindle::view {

bool is_terminal(std::FILE* out) { return ::isatty(::fileno(out)) == 1; }

std::size_t columns_of(std::FILE* out, std::size_t otherwise) {
  winsize size{};
  if (!is_terminal(out)) return otherwise;
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return 79;
  return size.ws_col - 1U;  // some terminals wrap a line that is as wide as the terminal
}

bool shows_unicode() {
  // In the order in which setlocale(3) looks.
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = environment_variable(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

std::string coloured(std::string_view text, Colour colour) {
  const char* code = "";
  switch (colour) {
    case Colour::kNone:
      return std::string(text);
    case Colour::kDim:
      code = "2";
      break;
    case Colour::kYellow:
      code = "33";
      break;
    case Colour::kRed:
      code = "31";
      break;
  }
  return str("\033[", code, "m", text, "\033[0m");
}

bool wants_colour(std::FILE* out) { return is_terminal(out) && environment_variable("NO_COLOR").empty(); }

std::string folded(std::string_view line, std::size_t width, std::size_t indent) {
  if (line.size() <= width || width <= indent + 1) return std::string(line);
  std::size_t cut = line.rfind(' ', width);
  if (cut == std::string_view::npos || cut <= indent) cut = std::min(width, line.size());
  std::string_view rest = line.substr(cut);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  std::string first(line.substr(0, cut));
  while (first.ends_with(' ')) first.pop_back();
  if (rest.empty()) return first;
  return first + "\n" + folded(str(std::string(indent, ' '), rest), width, indent);
}

}  // namespace rekindle::view
