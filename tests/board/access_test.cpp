#include "board/access.hpp"

#include <gtest/gtest.h>

namespace rekindle::board {
namespace {

const AccessRules kRules{.token = "0123456789abcdef",
                         .cookie = "rekindle_1",
                         .cookie_value = "fedcba9876543210",
                         .hosts = {"localhost", "127.0.0.1", "::1", "node1"},
                         .metrics_token = "metrics-metrics-",
                         .open_metrics = false};

Request request(const std::string& target) {
  return {.method = "GET", .target = target, .host = "localhost:8080", .cookie = "", .authorization = ""};
}

Request known(const std::string& target) {
  Request made = request(target);
  made.cookie = "other=1; rekindle_1=fedcba9876543210; more=2";
  return made;
}

Verdict verdict(const Request& request) { return decide(request, kRules).verdict; }

TEST(Access, WithTheCookie_IsServed) {
  const Decision decision = decide(known("/api/curves?names=loss%2Cacc&from=3"), kRules);
  EXPECT_EQ(decision.verdict, Verdict::kServe);
  EXPECT_EQ(decision.path, "/api/curves");
  ASSERT_NE(decision.find("names"), nullptr);
  EXPECT_EQ(*decision.find("names"), "loss,acc");
  EXPECT_EQ(*decision.find("from"), "3");
  EXPECT_EQ(decision.find("to"), nullptr);
}

// Pages of two runs on one host, whose cookies a browser keeps together: it does not tell ports apart.
TEST(Access, CookiesOfTwoRuns_HaveTwoNames) {
  EXPECT_EQ(cookie_name("/shared/a"), cookie_name("/shared/a"));
  EXPECT_NE(cookie_name("/shared/a"), cookie_name("/shared/b"));
}

TEST(Access, WithoutOrWithAWrongSecret_IsRefused) {
  EXPECT_EQ(verdict(request("/")), Verdict::kUnauthorized);
  EXPECT_EQ(verdict(request("/?token=0123456789abcdee")), Verdict::kUnauthorized);
  EXPECT_EQ(verdict(request("/?token=")), Verdict::kUnauthorized);
  for (const char* cookie : {"rekindle_1=", "rekindle_1=fedcba987654321", "rekindle_2=fedcba9876543210",
                             "xrekindle_1=fedcba9876543210", "rekindle_1", ";;;",
                             "rekindle_1=FEDCBA9876543210", "rekindle_1=0123456789abcdef"}) {
    Request made = request("/");
    made.cookie = cookie;
    EXPECT_EQ(verdict(made), Verdict::kUnauthorized) << cookie;
  }
  // A wrong token is refused also to those who have the cookie: somebody tries.
  EXPECT_EQ(verdict(known("/?token=0123456789abcdee")), Verdict::kUnauthorized);
}

TEST(Access, WithNoTokenAtAll_NobodyIsServed) {
  AccessRules rules = kRules;
  rules.token.clear();
  rules.cookie_value.clear();
  Request made = request("/?token=");
  made.cookie = "rekindle_1=";
  made.authorization = "Bearer ";
  EXPECT_EQ(decide(made, rules).verdict, Verdict::kUnauthorized);
  made.target = "/";
  EXPECT_EQ(decide(made, rules).verdict, Verdict::kUnauthorized);
}

TEST(Access, TheLink_IsExchangedForACookie) {
  EXPECT_EQ(verdict(request("/?token=0123456789abcdef")), Verdict::kExchange);
  EXPECT_EQ(verdict(known("/?token=0123456789abcdef")), Verdict::kExchange);
}

TEST(Access, AnotherHostName_IsRefusedWithEverySecret) {
  for (const char* host :
       {"evil.example", "evil.example:8080", "localhost.evil.example", "node10", "127.0.0.2"}) {
    Request made = known("/");
    made.host = host;
    EXPECT_EQ(verdict(made), Verdict::kForeignHost) << host;
  }
  for (const char* host : {"LOCALHOST", "[::1]:8080", "node1:1", "127.0.0.1"}) {
    Request made = known("/");
    made.host = host;
    EXPECT_EQ(verdict(made), Verdict::kServe) << host;
  }
  for (const char* host :
       {"", "local host", "localhost:", "localhost:80a", "[::1", "a/b", "localhost:123456"}) {
    Request made = known("/");
    made.host = host;
    EXPECT_EQ(verdict(made), Verdict::kBadRequest) << host;
  }
}

TEST(Access, Metrics_NeedABearerToken) {
  Request made = request("/metrics");
  EXPECT_EQ(verdict(made), Verdict::kUnauthorized);
  made.authorization = "Bearer metrics-metrics-";
  EXPECT_EQ(verdict(made), Verdict::kServe);
  made.host = "compute-node.cluster:9300";  // a scraper's name for this host
  EXPECT_EQ(verdict(made), Verdict::kServe);
  made.authorization = "bearer 0123456789abcdef";
  EXPECT_EQ(verdict(made), Verdict::kServe);
  made.authorization = "Basic metrics-metrics-";
  EXPECT_NE(verdict(made), Verdict::kServe);
  // The token of the metrics is none of the page.
  made = request("/api/summary");
  made.authorization = "Bearer metrics-metrics-";
  EXPECT_EQ(verdict(made), Verdict::kUnauthorized);
}

TEST(Access, OpenMetrics_NeedNoToken_ButAKnownHost) {
  AccessRules rules = kRules;
  rules.open_metrics = true;
  EXPECT_EQ(decide(request("/metrics"), rules).verdict, Verdict::kServe);
  Request made = request("/metrics");
  made.host = "evil.example";
  EXPECT_EQ(decide(made, rules).verdict, Verdict::kForeignHost);
}

TEST(Access, WhatNoBrowserSends_IsRefused) {
  for (const char* target :
       {"", "*", "http://localhost/", "api", "/%", "/%4", "/%zz", "/%00", "/a%0d%0ab", "/\xff", "/?a=%ff"}) {
    EXPECT_EQ(verdict(known(target)), Verdict::kBadRequest) << target;
  }
  EXPECT_EQ(verdict(known("/" + std::string(5000, 'a'))), Verdict::kBadRequest);
  std::string many = "/?";
  for (int i = 0; i < 100; ++i) many += "a=1&";
  EXPECT_EQ(verdict(known(many)), Verdict::kBadRequest);
  Request made = known("/");
  made.method = "POST";
  EXPECT_EQ(verdict(made), Verdict::kMethod);
}

// What two programs may understand in two ways is for neither.
TEST(Access, AmbiguousRequests_AreRefused) {
  Request made = known("/");
  made.ambiguous = true;
  EXPECT_EQ(verdict(made), Verdict::kBadRequest);
}

// Somebody who scrapes open metrics may be ended for another connection.
TEST(Access, OnlyASecretMakesKnown) {
  AccessRules rules = kRules;
  rules.open_metrics = true;
  EXPECT_FALSE(decide(request("/metrics"), rules).known);
  EXPECT_TRUE(decide(known("/"), rules).known);
  EXPECT_FALSE(decide(request("/"), rules).known);
}

TEST(Access, TheCookie_IsNotTheToken) {
  EXPECT_EQ(cookie_value("token").size(), 64U);
  EXPECT_EQ(cookie_value("token"), cookie_value("token"));
  EXPECT_NE(cookie_value("token"), cookie_value("Token"));
}

TEST(Access, TextInAddresses_ComesBack) {
  const std::string name = "a b/ü&?#%\"<";
  EXPECT_EQ(decoded(encoded(name), false), name);
  EXPECT_EQ(decoded("a+b", true), "a b");
  EXPECT_EQ(decoded("a+b", false), "a+b");
}

}  // namespace
}  // namespace rekindle::board
