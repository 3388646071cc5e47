// A run directory with what a run writes.
#pragma once

#include <gtest/gtest.h>

#include <fstream>

#include "../run/run_directory_fixture.hpp"
#include "run/records.hpp"

namespace rekindle::board {

inline constexpr std::uint64_t kLongSteps = 40000;

// 10 MB of metrics.jsonl.
inline void write_long_metrics(const run::Layout& layout) {
  std::ofstream out(layout.metrics().path());
  for (std::uint64_t i = 1; i <= kLongSteps; ++i)
    out << R"({"step":)" << i << R"(,"loss":1.5,"step_ms":1,"at":")" << std::string(200, 'x') << "\"}\n";
}

class BoardTest : public run::RunDirectory {
 protected:
  void step(std::uint64_t number, double loss, double step_ms = 100) {
    append(layout_.metrics(), {{"step", number},
                               {"loss", loss},
                               {"step_ms", step_ms},
                               {"compute_ms", step_ms / 2},
                               {"at", "2026-01-01T00:00:00Z"}});
  }
  void event(const std::string& kind, nlohmann::json more) {
    more["attempt"] = 1;
    ASSERT_TRUE(run::record_event(layout_, kind, std::move(more)));
  }
  void status(nlohmann::json fields) {
    fields.update(
        {{"state", "running"}, {"attempt", 1}, {"steps", 100}, {"updated", "2026-01-01T00:00:01Z"}});
    std::ofstream(layout_.status().path()) << fields;
  }
  void log(const std::string& line) {
    std::filesystem::create_directories(layout_.logs().path());
    std::ofstream(layout_.log("worker-w0").path(), std::ios::app) << line << "\n";
  }
  static void append(const FilePath& file, const nlohmann::json& line) {
    std::ofstream(file.path(), std::ios::app) << line << "\n";
  }
  // Records of step 1 and of recoveries. NaN is not JSON, and 1e999 is too large for a double: such a line
  // cannot be read. null is a value that is not known.
  void records_without_numbers() {
    for (const char* bad : {"NaN", "1e999", "-1e999", "null"}) {
      std::ofstream(layout_.metrics().path(), std::ios::app)
          << R"({"loss":)" << bad << R"(,"step":1,"step_ms":)" << bad << "}\n";
      std::ofstream(layout_.events().path(), std::ios::app)
          << R"({"at":"2026-01-01T00:00:01Z","attempt":1,"cause":"lost","event":"recovered","seconds":)"
          << bad << "}\n";
    }
  }
};

}  // namespace rekindle::board
