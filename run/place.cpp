#include "run/place.hpp"

#include <nlohmann/json.hpp>

#include "base/files.hpp"

namespace rekindle::run {

std::optional<CoordinatorPlace> read_place(const Layout& layout) {
  const auto text = read_text(layout.coordinator());
  if (!text) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  CoordinatorPlace place{json.value("term", std::uint64_t{0}), json.value("host", ""),
                         json.value("port", std::uint16_t{0})};
  if (place.term == 0 || place.port == 0) return std::nullopt;
  return place;
}

}  // namespace rekindle::run
