// The environment of an attempt, kept in the run directory for people.
#pragma once

#include <string>
#include <vector>

namespace rekindle::app {

// A line "NAME=value" for each variable, in the order of their names; control characters are escaped. The
// value of a variable whose name says that it is secret becomes "***", and so does a password in a URL.
std::string environment_note(std::vector<std::string> environment);

}  // namespace rekindle::app
