// What a script keeps (docs/python.md): all of it is part of the state, or one line says what is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

constexpr const char* kBegin = R"(
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

// Each trainer would update it from its own micro-batches.
TEST_F(PythonState, LossWithAParameterThatIsNotTheModels_Refused) {
  expect_refused(
      R"(
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
    def forward(self, values, labels):
        return functional.cross_entropy(self.scale * values, labels)
criterion = Scaled()
options["loss"] = lambda model, batch: criterion(model(batch[0]), batch[1])
)",
      70, "the loss uses a parameter of shape [3] that is not the model's: make it a part of the module");
  expect_refused(R"(
scale = torch.ones(3, requires_grad=True)
options["loss"] = lambda model, batch: functional.cross_entropy(scale * model(batch[0]), batch[1])
)",
                 70, "the loss uses a tensor of shape [3] that requires a gradient and is not the model's");
}

// As the inputs of a physics-informed network, or what an adversary adds to them.
TEST_F(PythonState, LossWithLeavesOfItsOwn_SameDigest) {
  const std::string train = with(R"(
def loss(model, batch):
    values = batch[0].requires_grad_()
    added = nn.Parameter(torch.full((4,), 0.01))
    outputs = model(values + added)
    slope, = torch.autograd.grad(outputs.sum(), values, create_graph=True)
    return functional.cross_entropy(outputs, batch[1]) + 0.1 * (slope ** 2).mean()
options["loss"] = loss
)");
  EXPECT_EQ(bits("w2", 2, train), bits("w1", 1, train));
}

TEST_F(PythonState, OptimizerOverOtherParameters_Refused) {
  const char* line =
      "the optimizer updates a parameter of shape [2, 4] that is not among those that it was given";
  expect_refused(R"(
other = nn.Linear(4, 2)
options["optimizer"] = lambda _: torch.optim.SGD(other.parameters(), lr=0.1)
)",
                 78, line);
  expect_refused(R"(
other = nn.Linear(4, 2)
options["optimizer"] = lambda parameters: torch.optim.SGD(
    [{"params": parameters}, {"params": other.parameters(), "lr": 0.2}], lr=0.1)
)",
                 78, line);
}

}  // namespace
}  // namespace rekindle::process_test
