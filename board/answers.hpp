// What the pages' addresses answer (docs/board.md), as far as it needs no state.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "board/access.hpp"
#include "board/server.hpp"
#include "view/history.hpp"

namespace rekindle::board {

Answer json_answer(const nlohmann::json& json, unsigned status = 200);
Answer error_answer(unsigned status, const std::string& why);
// A refusal, or the cookie in exchange for the token of a link. Not for Verdict::kServe.
Answer answer_without_page(const Decision& decision, const AccessRules& access);

view::CurveQuery query_of(const Decision& decision);
// The run's name as it is in addresses.
std::string name_of(const std::filesystem::path& directory, const std::filesystem::path& folder);
// api/runs. Reads storage.
nlohmann::json runs_json(const std::vector<std::filesystem::path>& found,
                         const std::filesystem::path& folder);

}  // namespace rekindle::board
