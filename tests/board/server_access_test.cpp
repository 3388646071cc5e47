// Who gets what of a server, and that its answers hold behind a proxy's folder.
#include <gmock/gmock.h>

#include <boost/asio/read_until.hpp>
#include <regex>

#include "board/parts.hpp"
#include "server_fixture.hpp"

namespace rekindle::board {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class ServerAccessTest : public ServerTest {
 protected:
  static std::string plain(const std::string& target, const std::string& more = "",
                           const std::string& host = "localhost") {
    return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + more + "\r\n";
  }
  static std::string bearer() { return "Authorization: Bearer " + std::string(kToken) + "\r\n"; }
};

// No other site and no script gets the cookie. It has no path and no domain, so that the browser takes the
// folder of the page, also behind a proxy that serves it in a folder of its own.
TEST_F(ServerAccessTest, TheLink_IsExchangedForACookieOfThePagesFolder) {
  serve();
  const std::string answer = answer_to(plain("/?token=" + std::string(kToken)));
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 "),
                            HasSubstr("<meta http-equiv=\"refresh\" content=\"0; url=./\">"),
                            HasSubstr("\r\nSet-Cookie: rekindle=" + cookie_value(kToken) +
                                      "; HttpOnly; SameSite=Strict; Max-Age=604800\r\n"),
                            HasSubstr("\r\nReferrer-Policy: no-referrer\r\n"), Not(HasSubstr(kToken))));
  EXPECT_THAT(answer_to(plain("/", "Cookie: rekindle=" + cookie_value(kToken) + "\r\n")),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer_to(plain("/?token=0123")),
              AllOf(StartsWith("HTTP/1.1 401 "), Not(HasSubstr("Set-Cookie"))));
}

// A Referer header has the address that a browser comes from. Logs of other servers have it, too.
TEST_F(ServerAccessTest, TheTokenInAReferrer_OpensNothing) {
  status({{"step", 2}, {"end", "secret"}});
  serve();
  const std::string referrer = "Referer: http://localhost/?token=" + std::string(kToken) + "\r\n";
  for (const char* target :
       {"/", "/page.js", "/api/summary", "/api/curves?names=loss", "/api/live", "/metrics"})
    EXPECT_THAT(answer_to(plain(target, referrer)),
                AllOf(StartsWith("HTTP/1.1 401 "), Not(HasSubstr("secret")), Not(HasSubstr("Set-Cookie"))))
        << target;
}

// Cookies know no ports: if a page at another port of this host asks, a browser sends the cookie. These
// headers keep the answer from that page.
TEST_F(ServerAccessTest, NoAnswer_IsForPagesOfOtherSites) {
  status({{"step", 2}});
  serve();
  const auto is_kept =
      AllOf(HasSubstr("\r\nCross-Origin-Resource-Policy: same-origin\r\n"),
            HasSubstr("\r\nCross-Origin-Opener-Policy: same-origin\r\n"),
            HasSubstr("\r\nX-Frame-Options: DENY\r\n"), HasSubstr("; frame-ancestors 'none'\r\n"),
            Not(HasSubstr("\r\nAccess-Control-")));
  const std::string origin = "Origin: http://evil.example\r\n";
  for (const char* target : {"/", "/page.js", "/api/summary", "/api/curves?names=loss"})
    EXPECT_THAT(answer_to(get(target, origin)), AllOf(StartsWith("HTTP/1.1 200 "), is_kept)) << target;
  EXPECT_THAT(answer_to(scrape()), AllOf(StartsWith("HTTP/1.1 200 "), is_kept));
  EXPECT_THAT(answer_to(get("/nothing", origin)), AllOf(StartsWith("HTTP/1.1 404 "), is_kept));
  EXPECT_THAT(answer_to(plain("/api/summary", origin)), AllOf(StartsWith("HTTP/1.1 401 "), is_kept));
  EXPECT_THAT(answer_to(get("/api/summary", origin + "Access-Control-Request-Method: GET\r\n", "OPTIONS")),
              AllOf(StartsWith("HTTP/1.1 405 "), is_kept));
  boost::asio::ip::tcp::socket stream = connect();
  boost::asio::write(stream, boost::asio::buffer(get("/api/live", origin)));
  std::string head;
  boost::asio::read_until(stream, boost::asio::dynamic_buffer(head), "\r\n\r\n");
  EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("text/event-stream"), is_kept));
}

// The address of --metrics-bind may be open to a whole cluster.
TEST_F(ServerAccessTest, AtTheAddressOfTheMetrics_NoSecretOpensThePage) {
  status({{"step", 2}, {"end", "secret"}});
  serve_metrics_alone();
  for (const std::string& target :
       std::vector<std::string>{"/", "/run.html", "/page.js", "/api/summary", "/api/curves?names=loss",
                                "/api/live", "/api/runs", "/?token=" + std::string(kToken)}) {
    for (const std::string& request :
         std::vector<std::string>{get(target), plain(target, bearer()), plain(target)}) {
      const std::string answer = answer_to(request);
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 4")) << request;
      EXPECT_THAT(answer,
                  AllOf(Not(HasSubstr("secret")), Not(HasSubstr("<!doctype")), Not(HasSubstr("Set-Cookie"))))
          << request;
    }
  }
  EXPECT_THAT(answer_to(scrape()), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("rekindle_step 2\n")));
  EXPECT_THAT(answer_to(plain("/metrics")), StartsWith("HTTP/1.1 401 "));
}

TEST_F(ServerAccessTest, OpenMetrics_NeedNoToken_AndOpenNothingElse) {
  status({{"step", 2}});
  rules_.open_metrics = true;
  serve();
  EXPECT_THAT(answer_to(plain("/metrics")),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("rekindle_step 2\n")));
  EXPECT_THAT(answer_to(plain("/metrics", "", "evil.example")), StartsWith("HTTP/1.1 403 "));
  for (const char* target : {"/", "/page.js", "/api/summary", "/api/curves", "/api/live"})
    EXPECT_THAT(answer_to(plain(target)), StartsWith("HTTP/1.1 401 ")) << target;
}

// A proxy may serve the page in a folder of its own (Open OnDemand), and a cluster has no internet.
TEST(Parts, NameNoAddressThatIsNotRelative) {
  const std::regex absolute(
      "(src|href|action)\\s*[=:]\\s*[{(]?\\s*[\"'`]?/|"
      "url\\(\\s*[\"']?/|"
      "(fetch|EventSource|get|load)\\(\\s*[\"'`]/|"
      "location\\.(origin|host)|"
      "https?://");
  EXPECT_TRUE(std::regex_search(std::string(R"(<script src="/page.js">)"), absolute));
  EXPECT_TRUE(std::regex_search(std::string("fetch(`/api/runs`)"), absolute));
  EXPECT_TRUE(std::regex_search(std::string("new EventSource('/api/live')"), absolute));
  EXPECT_TRUE(std::regex_search(std::string("url(/font.woff)"), absolute));
  for (const Part& part : parts()) {
    if (part.name.starts_with("uplot.")) continue;  // drawing, which asks for nothing, and its licence
    std::vector<std::string> found;
    const std::string text(part.text);
    for (std::sregex_iterator each(text.begin(), text.end(), absolute), end; each != end; ++each)
      if (text.compare(static_cast<std::size_t>(each->position()), 18, "http://www.w3.org/") != 0)
        found.push_back(each->str());  // the name of SVG is no address
    EXPECT_THAT(found, IsEmpty()) << part.name;
  }
}

}  // namespace
}  // namespace rekindle::board
