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

std::size_t rows_of(std::FILE* out, std::size_t otherwise) {
  winsize size{};
  if (!is_terminal(out) || ::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_row < 2)
    return otherwise;
  return size.ws_row;
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
  if (width <= indent + 1) return std::string(line);
  std::string made;
  for (std::size_t room = width; line.size() > room; room = width - indent) {
    std::size_t cut = line.rfind(' ', room);
    if (cut == std::string_view::npos || cut == 0 || (made.empty() && cut <= indent)) {
      cut = room;
      while (cut > 1 && (static_cast<unsigned char>(line[cut]) & 0xc0U) == 0x80)
        --cut;  // not inside a character
    }
    made += std::string(line.substr(0, line.find_last_not_of(' ', cut - 1) + 1)) + "\n" +
            std::string(indent, ' ');
    line.remove_prefix(std::min(line.find_first_not_of(' ', cut), line.size()));
  }
  if (line.empty()) return made.substr(0, made.find_last_not_of(" \n") + 1);
  return made + std::string(line);
}

}  // namespace rekindle::view
