// What a script's model keeps (docs/python.md): all of it is part of the state, or one line says what is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "python_state_fixture.hpp"

namespace rekindle::process_test {
namespace {

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

// Otherwise the run trains, and each checkpoint fails.
TEST_F(PythonState, NamesThatNoCheckpointCanHave_Refused) {
  expect_refused(R"(
class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.scales = nn.ParameterDict({"a/b": torch.ones(3)})
    def forward(self, values):
        return self.scales["a/b"] * super().forward(values)
options["model"] = Net
)",
                 78, "no checkpoint can have this model: a tensor cannot be named \"scales.a/b\"");
  expect_refused(R"(
class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.present = nn.Parameter(torch.ones(3))
    def forward(self, values):
        return self.present * super().forward(values)
options |= {"model": Net, "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1)}
)",
                 78, "the state has two tensors named present: rename the one of the script");
  const std::string average = R"(
class Averaging(torch.optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter].setdefault("ema", parameter.clone()).lerp_(parameter, 0.5)
options["optimizer"] = lambda parameters: Averaging(parameters, lr=0.1)
)";
  expect_refused(average + "options['ema'] = 0.9\n", 78, "the state has two tensors named ema.0.weight");
}

}  // namespace
}  // namespace rekindle::process_test
