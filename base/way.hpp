// Finds users who can replace the target of a path.
#pragma once

#include <filesystem>
#include <vector>

namespace rekindle {

// The folders and links on the way to `path` through which a user other than this one and root could put
// another directory in the place of `path`: such a user owns the folder, or may rename its entries, or owns a
// link that any user could have created. Links are followed, and the way to their targets is included. Each
// folder or link is listed once, by its path without links, the nearest to "/" first. Folders that cannot be
// examined are left out.
std::vector<std::filesystem::path> exchangeable_on_the_way(const std::filesystem::path& path);

}  // namespace rekindle
