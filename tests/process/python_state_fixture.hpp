// Scripts of a few lines that keep something.
#pragma once

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {

// `options` are the arguments of rekindle.run().
inline constexpr const char* kBegin = R"(
import math, sys, torch, rekindle
from torch import nn
from torch.nn import functional
SAMPLES = [(torch.randn(4, generator=torch.Generator().manual_seed(i)), i % 3) for i in range(64)]
def loss(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1])
options = {"model": lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)), "loss": loss,
           "train_data": SAMPLES, "optimizer": rekindle.SGD(lr=0.1), "batch_size": 16, "micro_batches": 4, "steps": 12}
)";

class PythonState : public Python {
 protected:
  // A script that sets `options`.
  std::string with(const std::string& lines) const {
    return script("train.py", str(kBegin, lines, "\nrekindle.run(**options)\n"));
  }
  Outcome outcome_of(const std::string& name, int workers, const std::string& file,
                     const Arguments& more = {}) const {
    Arguments arguments = local(scratch_ / name, workers, "shm", 0, file);
    arguments.insert(arguments.begin() + 1, more.begin(), more.end());
    return run(arguments);
  }
  std::string bits(const std::string& name, int workers, const std::string& file,
                   const Arguments& more = {}) const {
    const Outcome outcome = outcome_of(name, workers, file, more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    return digest_of(scratch_ / name);
  }
  void expect_refused(const std::string& lines, int exit_code, const std::string& text) const {
    const fs::path dir = scratch_ / "refused";
    fs::remove_all(dir);
    const Outcome outcome = outcome_of("refused", 1, with(lines));
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
    EXPECT_EQ(times_in(outcome.out + outcome.err, text), 1U) << text << "\n" << outcome.out << outcome.err;
  }
};

}  // namespace rekindle::process_test
