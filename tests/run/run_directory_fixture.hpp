// A separate run directory for each test, and claims of it.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "../temporary_directory.hpp"
#include "base/clock.hpp"
#include "base/text.hpp"
#include "run/terms.hpp"

namespace rekindle::run {

class RunDirectory : public ::testing::Test {
 protected:
  Result<std::uint64_t> claim(bool answers = true) {
    return claim_term(layout_, {.patience = std::chrono::milliseconds(1),
                                .answers = [&](const Holder&) { return answers; }});
  }
  void write_term(std::uint64_t term, const std::string& host, const std::string& boot, std::int64_t pid,
                  const std::string& container = pid_namespace(),
                  const std::string& since = "2001-02-03T04:05:06Z") {
    write_claim(term, {{"host", host},
                       {"boot_id", boot},
                       {"pid_namespace", container},
                       {"pid", pid},
                       {"start_ticks", 1},
                       {"since", since}});
  }
  void write_claim(std::uint64_t term, const nlohmann::json& claim) {
    fs::create_directories(layout_.terms().path());
    std::ofstream((layout_.terms() / str("000", term)).path()) << claim;
  }
  TemporaryDirectory directory_;
  fs::path path_ = directory_.path();
  Layout layout_{path_};
};

}  // namespace rekindle::run
