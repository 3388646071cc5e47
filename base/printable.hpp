// Text from files, names and other machines, made safe to show: what a terminal, a log's reader or a shell
// would take for more than text stands as an escape.
#pragma once

#include <string>
#include <string_view>

namespace rekindle {

// Control characters (line ends too, and U+0080 to U+009F), marks that reverse the direction of writing, and
// bytes that are no UTF-8 become \n, \r, \t, \xNN or \u{NNNN}. All other text is as it was; a backslash too.
std::string printable(std::string_view text);

}  // namespace rekindle
