// Which files of a data set were written after a run had looked at them.
#pragma once

#include <ctime>
#include <filesystem>
#include <string>

namespace rekindle::app {

// In words: "a, b and 3 more", relative to `data`, or the name of `data` itself if that is a file; empty:
// none was, or nobody can tell. By the time of the last change of each file, which rsync and tar do not put
// back. Looks at files up to two folders below, and not at hidden ones.
std::string written_since(const std::filesystem::path& data, const timespec& since);

}  // namespace rekindle::app
