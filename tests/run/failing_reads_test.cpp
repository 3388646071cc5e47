// Every file system call of a reader of a run's records may fail. What could not be read is not taken for
// missing.
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <vector>

#include "../checkpoint/shim.hpp"
#include "../temporary_directory.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "run/records.hpp"
#include "run/stop_request.hpp"

namespace rekindle::run {
namespace {

using checkpoint::Fault;
using checkpoint::Shim;
using Kind = Fault::Kind;

constexpr Fault kFaults[] = {{Kind::kRefused, EIO}, {Kind::kRefused, ESTALE}, {Kind::kShort}};

class FailingReads : public testing::Test {
 protected:
  static std::string line_of(int step) { return str(R"({"loss":0.5,"step":)", step, "}\n"); }
  void record(const std::vector<int>& steps) const {
    fs::remove_all(run_);
    fs::create_directories(run_);
    std::ofstream out(layout_.metrics().path());
    for (const int step : steps) out << line_of(step);
  }
  bool has_line_of(int step) const {
    return read_text(layout_.metrics()).value_or("").find(line_of(step)) != std::string::npos;
  }

  TemporaryDirectory directory_;
  const fs::path run_ = directory_.path() / "run";
  const Layout layout_{run_};
};

TEST_F(FailingReads, AnyCallOfARewindFails_NoLineThatStaysIsLost) {
  constexpr int kStays = 3, kAll = 5;
  // The second is rewound by a copy.
  for (const std::vector<int>& steps : {std::vector{1, 2, 3, 4, 5}, std::vector{1, 4, 2, 5, 3}}) {
    for (const Fault& fault : kFaults) {
      bool struck = true;
      for (std::size_t n = 0; struck; ++n) {
        record(steps);
        Shim shim(run_);
        shim.arm(fault, n);
        const Status rewound = MetricsFile(layout_).rewind(kStays);
        struck = shim.struck();
        SCOPED_TRACE(str(to_text(fault), " at call ", n, ": ", shim.struck_call()));
        shim.disarm();
        if (!struck || fault.kind == Kind::kShort) {
          ASSERT_TRUE(rewound) << rewound.error().line();
        }
        for (int step = 1; step <= kAll; ++step) {
          if (step <= kStays || rewound) {
            ASSERT_EQ(has_line_of(step), step <= kStays) << step;
          }
        }
      }
    }
  }
}

TEST_F(FailingReads, AnyCallFailsWhileTheMetricsAreRead_AllIsReadOrItIsSaidThatNot) {
  for (const Fault& fault : kFaults) {
    bool struck = true;
    for (std::size_t n = 0; struck; ++n) {
      record({1, 2, 3});
      Shim shim(run_);
      shim.arm(fault, n);
      const Recorded all = recorded(layout_);
      struck = shim.struck();
      SCOPED_TRACE(str(to_text(fault), " at call ", n, ": ", shim.struck_call()));
      if (!struck || fault.kind == Kind::kShort) {
        ASSERT_TRUE(all.read) << all.read.error().line();
      }
      if (all.read) {
        ASSERT_EQ(all.step, 3U);
      }
    }
  }
}

TEST_F(FailingReads, AnyCallFailsWhileAStopRequestIsRead_TheRequestStays) {
  for (const Fault& fault : kFaults) {
    bool struck = true;
    for (std::size_t n = 0; struck; ++n) {
      record({});
      std::ofstream(layout_.stop_request().path()) << "for this attempt";
      Shim shim(run_);
      shim.arm(fault, n);
      forget_stop_request(layout_, "for an older one");
      struck = shim.struck();
      SCOPED_TRACE(str(to_text(fault), " at call ", n, ": ", shim.struck_call()));
      shim.disarm();
      ASSERT_TRUE(fs::exists(layout_.stop_request().path()));
    }
  }
}

}  // namespace
}  // namespace rekindle::run
