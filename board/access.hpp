// Who may read what: decided from the text of a request alone. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rekindle::board {

struct AccessRules {
  std::string token = {};               // of the page; empty: the page is not served
  std::string cookie = {};              // the cookie's name
  std::string cookie_value = {};        // cookie_value(token); empty: no cookie is accepted
  std::vector<std::string> hosts = {};  // host names and addresses under which the page may be asked for
  std::string metrics_token = {};       // of /metrics besides the page's
  bool open_metrics = false;            // /metrics without a token
};

// As the request says, each empty if it does not.
struct Request {
  std::string method, target, host, cookie, authorization;
  bool ambiguous = false;  // header lines that two programs may understand in two ways
};

enum class Verdict {
  kServe,
  kExchange,  // the target has the right token: the answer sets the cookie and sends the browser to the same
              // place without the token
  kUnauthorized,  // 401
  kForeignHost,   // 403: another site's name leads here (DNS rebinding), or a proxy that is not allowed
  kBadRequest,    // 400
  kMethod,        // 405
};

struct Decision {
  Verdict verdict = Verdict::kBadRequest;
  bool known = false;  // the request shows a secret
  std::string path;    // decoded, without the query: "/", "/api/summary"
  std::vector<std::pair<std::string, std::string>> query = {};  // decoded, in order
  // nullptr: no such key.
  const std::string* find(std::string_view key) const;
};

Decision decide(const Request& request, const AccessRules& rules);

// The host of a Host header, without its port: "localhost" of "localhost:8080", "::1" of "[::1]:8080".
std::optional<std::string> host_in(std::string_view header);
// The cookie's name of a run or a folder of runs: the same for the same path.
std::string cookie_name(std::string_view path);
// What the browser keeps in place of the token. Cookies do not know ports: a browser sends this one to every
// server of the host, and none of them can make a bearer token or a link of it.
std::string cookie_value(std::string_view token);
// Takes the same time wherever the texts differ.
bool same_secret(std::string_view a, std::string_view b);
// %41 is A, + is a space in a query. nullopt: not UTF-8, a control character, or an unfinished escape.
std::optional<std::string> decoded(std::string_view text, bool query);
// The text with everything escaped that has a meaning in a URL.
std::string encoded(std::string_view text);

}  // namespace rekindle::board
