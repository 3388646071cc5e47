// The known name nearest to a mistyped one, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rekindle {

// By edit distance (insert, delete, replace, swap of neighbours). Empty if the nearest name differs in more
// than a third of its letters, because such a guess does not help.
std::string nearest_name(std::string_view word, std::span<const std::string> names);

// "did you mean vgg11?", or, if no name is near, "there is: vgg11, mnist-cnn".
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace rekindle
