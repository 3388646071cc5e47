#include "board/one_file.hpp"

#include <utility>

#include "base/files.hpp"
#include "board/json_text.hpp"
#include "board/parts.hpp"

namespace rekindle::board {

PageFile::PageFile(const std::filesystem::path& run_directory, std::filesystem::path file)
    : page_(run_directory, run_directory.filename().string()), file_(std::move(file)) {}

Status PageFile::write() {
  while (!page_.read()) {
  }
  const nlohmann::json summary = page_.summary();
  constexpr std::size_t kPoints = 1500;
  REKINDLE_TRY(
      const nlohmann::json curves,
      page_.curves(
          {.names = summary["metrics"].get<std::vector<std::string>>(), .range = {}, .points = kPoints}));
  const nlohmann::json data = {{"summary", summary}, {"curves", curves}};
  return replace_file(FilePath(file_), page_in_one_file(json_text(data)));
}

}  // namespace rekindle::board
