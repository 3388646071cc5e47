// Reads files out of a .tar.gz, in memory: nothing is unpacked to storage. Internal to data/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle::data {

using TarFiles = std::map<std::string, std::vector<std::uint8_t>>;  // by their names in the archive

// The files of the archive with one of the names `wanted`; the other files are skipped. Links, devices, names
// outside of the archive, damage, truncation, and archives that are much larger than their packed bytes are
// errors (ExitCode::kConfig) that name the archive. Format: POSIX.1-1988 (ustar), with the headers that pax
// and GNU tar add skipped.
Result<TarFiles> read_tar_gz(const std::filesystem::path& path, std::span<const std::string> wanted);

}  // namespace rekindle::data
