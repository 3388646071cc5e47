#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include "server_fixture.hpp"

namespace rekindle::board {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using asio::ip::tcp;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(ServerTest, ServesThePageAndItsNumbers) {
  status({{"step", 2}});
  step(1, 1.0);
  step(2, 0.5);
  serve();
  EXPECT_THAT(answer_to(get("/")),
              AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("Content-Security-Policy: default-src 'none'"),
                    HasSubstr("<!doctype html>")));
  EXPECT_THAT(answer_to(get("/page.js")), HasSubstr("text/javascript"));
  EXPECT_THAT(answer_to(get("/api/summary")), HasSubstr(R"("step":2)"));
  EXPECT_THAT(answer_to(get("/api/curves?names=loss")), HasSubstr(R"("value":[1,0.5])"));
  EXPECT_THAT(answer_to(get("/", "", "HEAD")),
              AllOf(StartsWith("HTTP/1.1 200 OK"), Not(HasSubstr("<!doctype"))));
}

TEST_F(ServerTest, WhoHasNoToken_GetsNothing) {
  status({{"step", 2}, {"end", "secret"}});
  serve();
  for (const char* target :
       {"/", "/page.js", "/api/summary", "/api/live", "/api/curves", "/metrics", "/nothing"}) {
    const std::string answer =
        answer_to(std::string("GET ") + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 401 ")) << target;
    EXPECT_THAT(answer, Not(HasSubstr("secret"))) << target;
  }
}

TEST_F(ServerTest, PathTricks_FindNothing) {
  serve({}, false);
  for (const char* target : {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/run/../../etc/api/summary",
                             "/run/%2e%2e/api/summary", "/run//api/summary", "/run/x/api/summary", "/run/x/y",
                             "/run/", "/uplot.LICENSE", "//etc/passwd", "/page.js/"}) {
    EXPECT_THAT(answer_to(get(target)), StartsWith("HTTP/1.1 404 ")) << target;
  }
}

TEST_F(ServerTest, OtherThanSmallGetRequests_AreRefused) {
  serve();
  EXPECT_THAT(answer_to(get("/", "", "POST")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(answer_to(get("/", "X: " + std::string(100000, 'a') + "\r\n")), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(answer_to(get("/", "Content-Length: 5\r\n") + "hello"), StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(answer_to("rubbish\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer_to(get("/")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, TwoHosts_AreRefused) {
  serve();
  EXPECT_THAT(answer_to(get("/", "Host: evil.example\r\n")), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer_to(get("/", "Transfer-Encoding: identity\r\n")), StartsWith("HTTP/1.1 400 "));
}

TEST_F(ServerTest, ManyRequestsAtOnce_AreAnsweredOrRefused) {
  status({{"step", 2}});
  serve();
  std::vector<tcp::socket> all;
  all.reserve(200);
  for (int i = 0; i < 200; ++i) {
    all.push_back(connect());
    asio::write(all.back(), asio::buffer(get("/api/summary")));
  }
  int answered = 0;
  for (tcp::socket& each : all) answered += rest_of(each).starts_with("HTTP/1.1 ") ? 1 : 0;
  EXPECT_EQ(answered, 200);
  EXPECT_THAT(answer_to(get("/api/summary")), HasSubstr(R"("step":2)"));
}

// Names of folders may be any bytes.
TEST_F(ServerTest, ARunWithABadName_DoesNotSpoilTheMetricsOfOthers) {
  const fs::path folder = layout_.root().path().parent_path() / "bad\xff\xfename";
  fs::create_directories(folder);
  std::ofstream(folder / "run.toml") << "";
  serve({}, false);
  const std::string metrics = answer_to(scrape());
  EXPECT_THAT(metrics, HasSubstr("run=\"bad"));
  EXPECT_THAT(metrics, Not(HasSubstr("\xff")));
  fs::remove_all(folder);
}

// The first reading of long runs takes minutes: it must not take the time of a scrape, nor of a page.
TEST_F(ServerTest, ALongRun_IsLeftOutOfTheMetricsUntilItHasBeenRead) {
  const fs::path folder = path_ / "runs";
  for (const char* name : {"long", "longer", "short"}) {
    fs::create_directories(folder / name);
    std::ofstream(folder / name / "run.toml") << "";
    if (name != std::string("short")) write_long_metrics(run::Layout(folder / name));
  }
  serve_folder(folder);
  const std::string first = answer_to(scrape());
  EXPECT_THAT(first, AllOf(HasSubstr("rekindle_up{run=\"short\"} 0"), Not(HasSubstr("run=\"long"))));
  const std::string steps = "} " + std::to_string(kLongSteps) + "\n";
  std::string later;
  while (later.find("run=\"long\"") == std::string::npos || later.find("run=\"longer\"") == std::string::npos)
    later = answer_to(scrape());
  EXPECT_THAT(later, AllOf(HasSubstr("rekindle_steps_total{run=\"long\"" + steps),
                           HasSubstr("rekindle_steps_total{run=\"longer\"" + steps)));
  EXPECT_THAT(answer_to(get("/run/long/api/curves?names=loss")), HasSubstr("\"last\":40000"));
}

TEST_F(ServerTest, CurvesOfALongRun_AreReadToTheEndFirst) {
  write_long_metrics(layout_);
  serve();
  EXPECT_THAT(answer_to(get("/api/curves?names=loss")), HasSubstr("\"last\":40000"));
}

TEST_F(ServerTest, ASlowRequest_IsCutOff) {
  serve({.request_seconds = 1});
  tcp::socket slow = connect();
  asio::write(slow, asio::buffer(std::string("GET / HTT")));
  EXPECT_EQ(rest_of(slow), "");
}

// With the limit of the program, which an open page and a scrape outlive.
TEST_F(ServerTest, AThousandConnections_KeepNobodyOut) {
  constexpr int kStrangers = 1000;
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4 * kStrangers);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  status({{"step", 1}});
  step(1, 1.0);
  serve({.request_seconds = 60});
  tcp::socket page = connect();
  asio::write(page, asio::buffer(get("/api/live")));
  std::string seen;
  asio::read_until(page, asio::dynamic_buffer(seen), "event: status");
  std::vector<tcp::socket> strangers;
  strangers.reserve(kStrangers);
  for (int i = 0; i < kStrangers; ++i) {
    strangers.push_back(connect());
    boost::system::error_code closed;
    if (i % 2 == 0) asio::write(strangers.back(), asio::buffer(std::string("GET / HTT")), closed);
  }
  EXPECT_THAT(answer_to(get("/")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer_to(scrape()), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("rekindle_step 1\n")));
  step(2, 0.125);
  asio::read_until(page, asio::dynamic_buffer(seen), R"("loss":[[2,0.125]])");
  // Nobody who came last without a token has got anything.
  asio::write(strangers.back(),
              asio::buffer(std::string("GET /api/summary HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  std::string answer;
  boost::system::error_code closed;
  asio::read_until(strangers.back(), asio::dynamic_buffer(answer), "\r\n\r\n", closed);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 40"));
}

TEST_F(ServerTest, AnOpenPage_GetsWhatIsNew) {
  status({{"step", 1}});
  step(1, 1.0);
  serve();
  tcp::socket page = connect();
  asio::write(page, asio::buffer(get("/api/live")));
  std::string seen;
  asio::read_until(page, asio::dynamic_buffer(seen), "event: status");
  step(2, 0.125);
  asio::read_until(page, asio::dynamic_buffer(seen), R"("loss":[[2,0.125]])");
  EXPECT_THAT(seen, AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("Content-Type: text/event-stream")));
}

TEST_F(ServerTest, ABoard_ShowsTheRunsBelowItsFolder) {
  std::ofstream(layout_.config().path()) << "";
  status({{"step", 2}});
  serve({}, false);
  const std::string name = layout_.root().filename().string();
  EXPECT_THAT(answer_to(get("/api/runs")), HasSubstr("\"name\":\"" + name + "\""));
  EXPECT_THAT(answer_to(get("/run/" + name + "/")), HasSubstr("<!doctype html>"));
  EXPECT_THAT(answer_to(get("/run/" + name + "/api/summary")), HasSubstr(R"("step":2)"));
  const std::string metrics = answer_to(scrape());
  EXPECT_THAT(metrics, HasSubstr("rekindle_step{run=\"" + name + "\"} 2\n"));
}

}  // namespace
}  // namespace rekindle::board
