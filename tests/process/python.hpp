// A Python with PyTorch, for tests of scripts.
#pragma once

#include <cstdlib>
#include <string>

#include "harness.hpp"

namespace rekindle::process_test {

inline constexpr const char* kNoTorch =
    "needs a python3 with torch and numpy (REKINDLE_ORACLE_PYTHON names it)";

// The one that tests use for what needs packages.
inline std::string oracle_python() {
  const char* named = std::getenv("REKINDLE_ORACLE_PYTHON");
  return named == nullptr ? "python3" : named;
}

// Empty if there is none.
inline std::string python_with_torch() {
  std::string python = oracle_python();
  Program program(
      {"/usr/bin/env", python, "-c",
       "import importlib.util as u, sys; sys.exit(not (u.find_spec('numpy') and u.find_spec('torch')))"});
  return program.wait().exit_code == 0 ? python : "";
}

// The script of tests/python, in a checkout.
inline std::string everything_script(const std::string& source) {
  return fs::path(source) / "tests/python/everything.py";
}

}  // namespace rekindle::process_test
