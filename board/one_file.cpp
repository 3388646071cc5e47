#include "board/one_file.hpp"

#include "base/files.hpp"
#include "board/json_text.hpp"
#include "board/parts.hpp"
#include "board/run_page.hpp"

namespace rekindle::board {

Status write_page_file(const std::filesystem::path& run_directory, const std::filesystem::path& file) {
  RunPage page(run_directory, run_directory.filename().string());
  while (!page.read()) {
  }
  const nlohmann::json summary = page.summary();
  constexpr std::size_t kPoints = 1500;
  REKINDLE_TRY(
      const nlohmann::json curves,
      page.curves(
          {.names = summary["metrics"].get<std::vector<std::string>>(), .range = {}, .points = kPoints}));
  const nlohmann::json data = {{"summary", summary}, {"curves", curves}};
  return replace_file(FilePath(file), page_in_one_file(json_text(data)));
}

}  // namespace rekindle::board
