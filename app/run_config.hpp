// run.toml: the resolved job of a run, which every process of the run reads.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_path.hpp"
#include "base/result.hpp"
#include "protocol/job.hpp"

namespace rekindle::app {

std::string to_toml(const protocol::Job& job);
Result<protocol::Job> read_job(const FilePath& run_toml);
// The same from the text of such a file; errors use the name `run_toml`.
Result<protocol::Job> parse_job(const std::string& text, const FilePath& run_toml);

// A user's --config file: keys are the long option names without dashes, values as text. Tables are errors.
Result<std::vector<std::pair<std::string, std::string>>> read_config_file(const std::filesystem::path& file);

// The compiler and the libraries that this program was built with.
std::string built_with();
// The identity of this program: version and a hash of the executable.
Result<std::string> own_build();
Result<std::string> build_of(const std::filesystem::path& executable);

}  // namespace rekindle::app
