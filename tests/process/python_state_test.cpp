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
                 78, "the state has two tensors named present: rename the one of your model");
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

// In the run's memory each has its own.
TEST_F(PythonState, ParametersThatShareMemory_Refused) {
  expect_refused(R"(
def model():
    made = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    made[1].weight.data = made[0].weight.data
    return made
options["model"] = model
)",
                 78, "the model's tensors 0.weight and 1.weight share memory: tie the Parameter itself");
  expect_refused(R"(
def model():
    made = nn.Linear(4, 3)
    made.register_buffer("first_row", made.weight.data[0])
    return made
options["model"] = model
)",
                 78, "the model's tensors first_row and weight share memory");
}

// As columns of one matrix, and constants that are views of one tensor.
TEST_F(PythonState, TensorsInOneMemoryThatDoNotOverlap_AreTaken) {
  const Outcome outcome = python({script("tensors.py", R"(
import torch
from torch import nn
from rekindle._model import Tensors
both = torch.arange(24.0).view(4, 6)
model = nn.Module()
model.left, model.right = nn.Parameter(both[:, :3]), nn.Parameter(both[:, 3:])
model.register_buffer("mask", torch.ones(8, 8)[:4, :4])
model.register_buffer("same_mask", model.mask[:2])
model.register_buffer("expanded", torch.ones(1).expand(4), persistent=False)
model.register_buffer("empty", torch.ones(0), persistent=False)
print(list(Tensors(model).parameters), list(Tensors(model).buffers))
)")});
  EXPECT_EQ(outcome.out, "['left', 'right'] ['mask', 'same_mask']\n") << outcome.err;
}

TEST_F(PythonState, BufferThatTheFirstForwardPassMakes_Refused) {
  for (const char* first : {"self.register_buffer('running', None)", "pass"}) {
    expect_refused(str(R"(
class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        )",
                       first, R"(
    def forward(self, values):
        if getattr(self, "running", None) is None:
            self.register_buffer("cache", torch.ones(3), persistent=False)
            if "running" in self._buffers:
                self.running = torch.zeros(3)
            else:
                self.register_buffer("running", torch.zeros(3))
        outputs = super().forward(values) * self.cache
        self.running = 0.9 * self.running + 0.1 * outputs.detach().mean(0)
        return outputs - self.running
options["model"] = Net
)"),
                   70, "buffer running appeared in a micro-batch, and is not part of the state: register it");
  }
}

// As by resize_(): a checkpoint would have too few of its values, or what lies behind them.
TEST_F(PythonState, BufferWhoseShapeChangesInPlace_Refused) {
  expect_refused(R"(
class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("seen", torch.zeros(4))
    def forward(self, values):
        self.seen.data = torch.zeros(2)
        return super().forward(values)
options["model"] = Net
)",
                 70, "buffer seen became torch.float32 [2] on cpu: keep its type, shape and device");
}

// As in a branch for some samples. Whether it is called is another matter in each micro-batch.
TEST_F(PythonState, BatchNormThatNotEveryMicroBatchCalls_RefusedUnlessItDoesNotCount) {
  const std::string lines = R"(
class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.norm = nn.BatchNorm1d(4)
    def forward(self, values):
        return super().forward(self.norm(values) if values[0, 0] > 0 else values)
options["model"] = Net
)";
  const Outcome refused = outcome_of("refused", 1, with(lines));
  EXPECT_EQ(refused.exit_code, 70) << refused.out << refused.err;
  EXPECT_THAT(refused.out + refused.err,
              testing::HasSubstr("give buffer norm.num_batches_tracked (int64) different values: not every "
                                 "micro-batch calls this batch norm: set bn.num_batches_tracked = None"));
  const std::string train = with(lines + R"(
def model():
    made = Net()
    made.norm.num_batches_tracked = None
    return made
options["model"] = model
)");
  EXPECT_EQ(bits("w2", 2, train), bits("w1", 1, train));
}

// As the zero point of quantization-aware training.
TEST_F(PythonState, BufferOfWholeNumbersThatFollowsTheSamples_RefusedUnlessThereIsOneMicroBatch) {
  const std::string train = with(R"(
class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("zero_point", torch.zeros((), dtype=torch.int32))
    def forward(self, values):
        if self.training:
            self.zero_point = (100 * values.min()).int()
        return super().forward(values)
options["model"] = Net
)");
  const Outcome refused = outcome_of("refused", 1, train);
  EXPECT_EQ(refused.exit_code, 70) << refused.out << refused.err;
  EXPECT_THAT(
      refused.out + refused.err,
      testing::HasSubstr("give buffer zero_point (int32) different values: only float32 buffers can be "
                         "averaged, others may only count; a new run with --micro-batches 1 averages "
                         "none"));
  EXPECT_EQ(bits("one", 1, train, {"--micro-batches", "1"}).size(), 33U);
}

// After each micro-batch they are other tensors, and some are tensors that are also something else: the
// hidden state is the first one again, and the weights before the update are the weights. A flag is no number
// that could be averaged.
TEST_F(PythonState, BuffersThatAForwardPassReplaces_AreKeptAndComeBackAfterAResume) {
  const std::string lines = R"(
class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.register_buffer("is_odd", torch.zeros((), dtype=torch.bool))
        self.register_buffer("center", torch.zeros(4))
        self.register_buffer("first", torch.full((4,), 0.25))
        self.register_buffer("hidden", torch.zeros(4))
        self.register_buffer("before", torch.zeros(3, 4))
    def forward(self, values):
        if self.training:
            self.is_odd = ~self.is_odd
            self.center = 0.5 * self.center + 0.5 * values.mean(0)
            self.hidden = self.first if self.is_odd else self.hidden + self.first + values.detach().mean(0)
            self.before = self.weight.data
        return super().forward((values - self.is_odd * self.center + self.hidden) * self.mask)
options |= {"model": Net, "steps": 7}
)";
  const std::string train = with(lines);
  const std::string calm = bits("calm", 1, train);
  bits("stopped", 2, train, {"--steps", "3"});
  const std::string load = script("load.py", str(kBegin, lines, R"(
model = rekindle.load(sys.argv[1], Net())
print(model.is_odd.item(), model.mask.tolist(), model.center.count_nonzero().item(),
      model.first.tolist() == [0.25] * 4, torch.equal(model.hidden, model.first),
      model.before.count_nonzero().item(), (model.before != model.weight).any().item())
)"));
  const std::string kept = "True [True, False, True, True] 4 True True 12 True\n";
  EXPECT_EQ(python({load, scratch_ / "stopped"}).out, kept);
  EXPECT_EQ(bits("stopped", 1, train), calm);
  EXPECT_EQ(python({load, scratch_ / "stopped"}).out, kept);
}

// In the run's memory they are contiguous, with the same values.
TEST_F(PythonState, ParametersInChannelsLast_SameDigestAsContiguousOnes) {
  const std::string contiguous = R"(
def model():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3))
images = torch.randn(64, 3, 6, 6, generator=torch.Generator().manual_seed(1))
options |= {"model": model, "train_data": [(image, i % 3) for i, image in enumerate(images)]}
)";
  const std::string expected = bits("contiguous", 1, with(contiguous));
  EXPECT_EQ(bits("channels-last", 2, with(contiguous + R"(
def converted():
    made = model().to(memory_format=torch.channels_last)
    assert not made[0].weight.is_contiguous()
    return made
options["model"] = converted
)")),
            expected);
}

// Its hooks take a part of the names out of state_dict().
TEST_F(PythonState, WrapperThatChangesNames_SameDigestAndNamesOfStateDict) {
  const std::string lines = R"(
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
def model(wrap=checkpoint_wrapper):
    return nn.Sequential(nn.Linear(4, 4), wrap(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))), nn.Linear(4, 3))
def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)
options |= {"model": model, "optimizer": optimizer, "ema": 0.9}
)";
  const std::string train = with(lines);
  EXPECT_EQ(bits("w2", 2, train), bits("w1", 1, train));
  const Outcome outcome = python({script("load.py", str(kBegin, lines, R"(
plain = model(wrap=lambda module: module)
mine = optimizer(plain.parameters())
rekindle.load(sys.argv[1], plain, mine)
rekindle.load(sys.argv[1], model())
print(sorted(rekindle._results._read(sys.argv[1])) == sorted(plain.state_dict()))
print(sorted(mine.state[plain[1][0].weight]))
try:
    rekindle.load(sys.argv[1], model().half())
except rekindle.RekindleError as error:
    print(error)
)")),
                                  scratch_ / "w1"});
  EXPECT_EQ(outcome.out,
            "True\n['exp_avg', 'exp_avg_sq', 'step']\nthe checkpoint is of another model: its 0.weight is "
            "float32 [4, 4], the model's is float16 [4, 4]: load into a float32 model, then convert it\n")
      << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
