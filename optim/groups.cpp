#include "optim/groups.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <string_view>

#include "base/lists.hpp"
#include "base/text.hpp"

namespace rekindle::optim {
namespace {

constexpr std::size_t kNamesShown = 40;

// The hint for a pattern that matches nothing.
std::string list_of(const std::vector<std::string>& names) {
  std::string list = "the parameters are ";
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
    list += (i == 0 ? "" : ", ") + names[i];
  return names.size() <= kNamesShown ? list : str(list, ", and ", names.size() - kNamesShown, " more");
}

// Calls `apply` for each parameter that a pattern of the list matches.
Status match(const char* option, const std::vector<std::string>& patterns,
             const std::vector<std::string>& names,
             const std::function<void(std::size_t pattern, std::size_t parameter)>& apply) {
  std::vector<const std::string*> taken(names.size());
  for (std::size_t p = 0; p < patterns.size(); ++p) {
    bool found = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (::fnmatch(patterns[p].c_str(), names[i].c_str(), 0) != 0) continue;
      if (taken[i] != nullptr)
        return fail(ExitCode::kConfig,
                    str(option, ": ", *taken[i], " and ", patterns[p], " both match parameter ", names[i]),
                    "let one pattern match each parameter");
      taken[i] = &patterns[p];
      found = true;
      apply(p, i);
    }
    if (!found)
      return fail(ExitCode::kConfig, str(option, ": ", patterns[p], " matches no parameter of the model"),
                  list_of(names));
  }
  return {};
}

Result<double> parse_factor(std::string_view text, const std::string& entry) {
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(factor) || factor < 0)
    return fail(ExitCode::kConfig, str("--lr-scale ", entry, " has no factor of at least 0"),
                "write it as PATTERN=0.1");
  return factor;
}

}  // namespace

Result<std::vector<Group>> make_groups(const GroupOptions& options, const std::vector<std::string>& names) {
  std::vector<Group> groups(names.size());
  REKINDLE_CHECK(match("--no-decay", comma_separated(options.no_decay), names,
                       [&](std::size_t, std::size_t i) { groups[i].decays = false; }));
  std::vector<std::string> patterns;
  std::vector<double> factors;
  for (const std::string& entry : comma_separated(options.lr_scale)) {
    const std::size_t equals = entry.rfind('=');
    const std::string_view text =
        equals == std::string::npos ? std::string_view() : std::string_view(entry).substr(equals + 1);
    REKINDLE_TRY(const double factor, parse_factor(text, entry));
    patterns.push_back(entry.substr(0, equals));
    factors.push_back(factor);
  }
  REKINDLE_CHECK(match("--lr-scale", patterns, names,
                       [&](std::size_t p, std::size_t i) { groups[i].lr_scale = factors[p]; }));
  return groups;
}

}  // namespace rekindle::optim
