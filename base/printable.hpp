// Makes text from files, names and other machines safe to show: characters that a terminal, a log reader or a
// shell would interpret are escaped.
#pragma once

#include <string>
#include <string_view>

namespace rekindle {

// Control characters (also line ends, and U+0080 to U+009F), marks that change the direction of writing,
// characters without width, and bytes that are not UTF-8 become \n, \r, \t, \xNN or \u{NNNN}. All other text
// is unchanged, including backslashes.
std::string printable(std::string_view text);

}  // namespace rekindle
