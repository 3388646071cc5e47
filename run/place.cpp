#include "run/place.hpp"

#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/json_reader.hpp"
#include "base/network.hpp"
#include "base/text.hpp"
#include "run/terms.hpp"

namespace rekindle::run {

std::optional<CoordinatorPlace> read_place(const Layout& layout) {
  constexpr std::size_t kMostBytes = 65536;
  constexpr JsonField kFields[] = {{"term", JsonType::kWhole},
                                   {"host", JsonType::kText},
                                   {"port", JsonType::kWhole},
                                   {"certificate", JsonType::kText}};
  const auto text = read_text(layout.coordinator(), kMostBytes);
  if (!text) return std::nullopt;
  const auto json = parse_object(*text, kFields, layout.coordinator().string());
  if (!json) return std::nullopt;
  const auto term = json->value("term", std::uint64_t{0}), port = json->value("port", std::uint64_t{0});
  if (term == 0 || term > kMostTerms || port == 0 || port > UINT16_MAX) return std::nullopt;
  return CoordinatorPlace{term, json->value("host", ""), static_cast<std::uint16_t>(port),
                          json->value("certificate", "")};
}

std::string foreign_loopback(const Layout& layout) {
  const auto place = read_place(layout);
  const auto holder = newest_term(layout);
  if (!place || !is_loopback(place->host) || !holder || !*holder || (*holder)->ended ||
      place->term != (*holder)->term || shares_loopback(**holder))
    return "";
  if ((*holder)->boot_id == boot_id())
    return str("another container of this machine (", (*holder)->host, ")");
  return str("host ", (*holder)->host);
}

}  // namespace rekindle::run
