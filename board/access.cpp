#include "board/access.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <span>

#include "base/hash.hpp"
#include "base/utf8.hpp"

namespace rekindle::board {
namespace {

constexpr std::size_t kLongestTarget = 4096;
constexpr std::size_t kMostKeys = 32;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '~';
}

std::string lower(std::string_view text) {
  std::string made(text);
  std::ranges::transform(made, made.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return made;
}

// The value of a cookie in "a=1; b=2".
std::string_view cookie_in(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const std::size_t end = std::min(header.find(';'), header.size());
    std::string_view one = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (one.starts_with(name) && one.size() > name.size() && one[name.size()] == '=')
      return one.substr(name.size() + 1);
  }
  return {};
}

std::string_view bearer_in(std::string_view header) {
  constexpr std::string_view kBearer = "bearer ";
  if (header.size() < kBearer.size() || lower(header.substr(0, kBearer.size())) != kBearer) return {};
  return header.substr(kBearer.size());
}

// Fills path and query. False: not a target that a browser sends to a server.
bool parse_target(std::string_view target, Decision& decision) {
  if (!target.starts_with('/') || target.size() > kLongestTarget) return false;
  const std::size_t mark = std::min(target.find('?'), target.size());
  const auto path = decoded(target.substr(0, mark), false);
  if (!path) return false;
  decision.path = *path;
  std::string_view rest = target.substr(std::min(mark + 1, target.size()));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t equals = std::min(one.find('='), one.size());
    const auto key = decoded(one.substr(0, equals), true);
    const auto value = decoded(one.substr(std::min(equals + 1, one.size())), true);
    if (!key || !value || decision.query.size() >= kMostKeys) return false;
    decision.query.emplace_back(*key, *value);
  }
  return true;
}

}  // namespace

const std::string* Decision::find(std::string_view key) const {
  const auto found =
      std::ranges::find(query, key, [](const auto& entry) { return std::string_view(entry.first); });
  return found == query.end() ? nullptr : &found->second;
}

Decision decide(const Request& request, const AccessRules& rules) {
  Decision decision;
  const auto judged = [&decision](Verdict verdict, bool known) {
    decision.verdict = verdict;
    decision.known = known;
    return decision;
  };
  if (request.method != "GET" && request.method != "HEAD") return judged(Verdict::kMethod, false);
  const auto host = host_in(request.host);
  if (!host || request.ambiguous || !parse_target(request.target, decision))
    return judged(Verdict::kBadRequest, false);
  const std::string_view bearer = bearer_in(request.authorization);
  const bool bears = same_secret(bearer, rules.token);
  const bool may_scrape = bears || same_secret(bearer, rules.metrics_token);
  // A scraper sends whatever name its site has for this host. A browser sends no bearer token by itself.
  if (decision.path == "/metrics" && may_scrape) return judged(Verdict::kServe, true);
  if (std::ranges::find(rules.hosts, lower(*host)) == rules.hosts.end())
    return judged(Verdict::kForeignHost, false);
  if (decision.path == "/metrics")
    return judged(rules.open_metrics ? Verdict::kServe : Verdict::kUnauthorized, false);
  if (const std::string* const token = decision.find("token")) {
    const bool knows = same_secret(*token, rules.token);
    return judged(knows ? Verdict::kExchange : Verdict::kUnauthorized, knows);
  }
  const bool has_cookie = same_secret(cookie_in(request.cookie, rules.cookie), rules.cookie_value);
  return judged(has_cookie || bears ? Verdict::kServe : Verdict::kUnauthorized, has_cookie || bears);
}

std::optional<std::string> host_in(std::string_view header) {
  if (header.empty() || header.size() > 255) return std::nullopt;
  std::string_view host = header, rest;
  if (header.starts_with('[')) {
    const std::size_t end = header.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = header.substr(1, end - 1);
    rest = header.substr(end + 1);
  } else {
    const std::size_t colon = std::min(header.find(':'), header.size());
    host = header.substr(0, colon);
    rest = header.substr(colon);
  }
  if (host.empty()) return std::nullopt;
  if (!rest.empty()) {
    if (rest.size() < 2 || rest.size() > 6 || rest.front() != ':') return std::nullopt;
    for (const char c : rest.substr(1))
      if (c < '0' || c > '9') return std::nullopt;
  }
  for (const char c : host)
    if (!is_plain(c) && c != ':') return std::nullopt;
  return std::string(host);
}

std::string cookie_name(std::string_view path) {
  return "rekindle_" + hash128(std::as_bytes(std::span(path))).hex().substr(0, 12);
}

std::string cookie_value(std::string_view token) {
  constexpr std::string_view kPurpose = "the cookie of rekindle's page";
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  ::HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
         reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(), digest.data(), &size);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size() || a.empty()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

std::optional<std::string> decoded(std::string_view text, bool query) {
  std::string made;
  made.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = digit_of(text[i + 1]), low = digit_of(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      made.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      made.push_back(query && text[i] == '+' ? ' ' : text[i]);
    }
    if (static_cast<unsigned char>(made.back()) < 0x20 || made.back() == 0x7f) return std::nullopt;
  }
  for (std::string_view rest = made; !rest.empty();) {
    const std::size_t bytes = first_character(rest).bytes;
    if (bytes == 0) return std::nullopt;
    rest.remove_prefix(bytes);
  }
  return made;
}

std::string encoded(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (is_plain(c)) {
      made.push_back(c);
      continue;
    }
    std::array<char, 4> escape{};
    std::snprintf(escape.data(), escape.size(), "%%%02X", static_cast<unsigned char>(c));
    made += escape.data();
  }
  return made;
}

}  // namespace rekindle::board
