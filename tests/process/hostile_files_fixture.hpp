// The real commands on hostile files: they must print one line, return the documented exit code and use
// little memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/files.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {

class HostileFiles : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return scratch_ / name; }

  // Runs with less memory than the files claim.
  static Outcome run_in_little_memory(const Arguments& arguments) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return run(arguments);  // sanitizers reserve terabytes
#else
    return Program(Arguments{"/usr/bin/prlimit", str("--as=", 700'000'000), rekindle()} + arguments).wait();
#endif
  }
  static void expect_refused(const Outcome& outcome, int exit_code, const std::string& what) {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_NE(outcome.err.find(what), std::string::npos) << what << "\nsaid: " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  void write(const FilePath& path, const std::string& text) const {
    const fs::path file = path.path();
    std::ofstream(file, std::ios::binary) << text;
  }
  // A header, followed by a hole for the data.
  void write_safetensors(const fs::path& file, const std::string& header, std::uint64_t data_bytes) const {
    const std::uint64_t size = header.size();
    write(file, std::string(reinterpret_cast<const char*>(&size), sizeof size) + header);
    fs::resize_file(file, sizeof size + size + data_bytes);
  }
  Scratch scratch_;
};

}  // namespace rekindle::process_test
