// What a test needs of its machine. Where that is missing, the test is skipped, and `./dev test` lists it
// with the reason. With `./dev test --strict`, as in CI, it fails instead, unless the machine truly does not
// give it.
#pragma once

#include <gtest/gtest.h>

#include "rights.hpp"

// For the body of a test or its SetUp().
#define REKINDLE_SKIP(needs, why)                                                                           \
  do {                                                                                                      \
    if (rekindle::must_run(needs)) FAIL() << "this would be skipped, but nothing is in its way: " << (why); \
    GTEST_SKIP() << (why);                                                                                  \
  } while (false)
