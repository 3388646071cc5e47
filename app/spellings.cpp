#include "app/spellings.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace rekindle::app {

std::string usual_name(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kAliases{
      {{"learning-rate", "lr"},
       {"wd", "weight-decay"},
       {"gamma", "lr-gamma"},
       {"arch", "model"},
       {"data-dir", "data"},
       {"data-path", "data"},
       {"num-workers", "loader-threads"},
       {"nproc-per-node", "trainers-per-worker"}}};
  for (const auto& [alias, usual] : kAliases) {
    if (name == alias) return std::string(usual);
  }
  return name;
}

void use_usual_names(std::vector<std::string>& arguments) {
  for (std::string& argument : arguments) {
    if (argument == "--") return;
    if (!argument.starts_with("--")) continue;
    const std::size_t end = std::min(argument.find('='), argument.size());
    argument = "--" + usual_name(argument.substr(2, end - 2)) + argument.substr(end);
  }
}

}  // namespace rekindle::app
