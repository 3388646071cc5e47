// What an optimizer of a script keeps (docs/python.md): all of it is saved, or one line says what is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "python_state_fixture.hpp"

namespace rekindle::process_test {
namespace {

using PythonOptimizers = PythonState;

TEST_F(PythonOptimizers, OptimizerOverOtherParameters_Refused) {
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

// The next step has another gradient in the same memory.
TEST_F(PythonOptimizers, OptimizerThatKeepsAGradient_AsInTorchAndAfterAResume) {
  const std::string lines = R"(
class Previous(torch.optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                previous = state.get("previous_grad", torch.zeros_like(parameter.grad))
                parameter.sub_(group["lr"] * (2 * parameter.grad - previous))
                state["previous_grad"] = parameter.grad
def model():
    made = nn.Linear(4, 3)
    with torch.no_grad():
        made.weight.copy_(torch.linspace(-1, 1, 12).view(3, 4))
        made.bias.zero_()
    return made
batch = [torch.full((16, 4), 0.3), torch.ones(16, dtype=torch.int64)]
options |= {"model": model, "optimizer": lambda parameters: Previous(parameters, lr=0.1), "steps": 8,
            "train_data": [(batch[0][0], batch[1][0])] * 64, "micro_batches": 1}
)";
  const std::string train = with(lines);
  const std::string calm = bits("calm", 1, train);
  bits("stopped", 2, train, {"--steps", "4"});
  EXPECT_EQ(bits("stopped", 1, train), calm);
  const std::string compare = script("compare.py", str(kBegin, lines, R"(
plain = model()
optimizer = options["optimizer"](plain.parameters())
for _ in range(8):
    optimizer.zero_grad(set_to_none=True)
    loss(plain, batch).backward()
    optimizer.step()
loaded = rekindle.load(sys.argv[1], model())
print("close", torch.allclose(loaded.weight, plain.weight, rtol=0, atol=1e-6))
)"));
  const Outcome outcome = python({compare, scratch_ / "calm"});
  EXPECT_EQ(outcome.out, "close True\n") << outcome.err;
}

// A count for the correction of a bias would begin again at 0.
TEST_F(PythonOptimizers, OptimizerThatCountsInAnAttribute_Refused) {
  for (const char* name : {"t", "_step_count"}) {
    expect_refused(str(R"(
class Counting(torch.optim.SGD):
    def __init__(self, parameters, lr):
        super().__init__(parameters, lr=lr)
        self.)",
                       name, R"( = 0
    def step(self, closure=None):
        self.)",
                       name, R"( += 1
        super().step()
options["optimizer"] = lambda parameters: Counting(parameters, lr=0.1)
)"),
                   78,
                   str("the optimizer's steps change its ", name, ": keep it as a number in param_groups"));
  }
}

// The steps of the copy, with small gradients, leave it as it is: the first real step, or the save, finds it.
TEST_F(PythonOptimizers, OptimizerThatHidesWhatGradientsChange_Refused) {
  const Outcome outcome = python({script("hidden.py", R"(
import collections, logging, random, numpy, torch
from rekindle import RekindleError
from rekindle._optimizer import OwnOptimizer, Template
model = torch.nn.Linear(4, 3, bias=False)
class Box: pass
class Hiding(torch.optim.SGD):
    def __init__(self, parameters, begin, note):
        super().__init__(parameters, lr=0.1)
        self.note, self.least = note, 0.5
        begin(self)
    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad is not None and parameter.grad.max() > self.least:
                self.note(self, parameter)
def steps(begin, note, in_steps):
    make = lambda parameters: Hiding(parameters, begin, note)
    template = Template(make, model)
    optimizer = OwnOptimizer(make, model, template, [torch.zeros(each.shape, dtype=each.dtype) for _, each in template.tensors])
    for _ in range(in_steps):
        optimizer.step(1.0, [torch.ones(3, 4)])
    optimizer.save()
def look(what, begin, note, in_steps=1):
    try:
        steps(begin, note, in_steps)
        print(what, "taken")
    except RekindleError as error:
        print(what, str(error).partition(", which")[0].removeprefix("the optimizer changed its "))
def late(self): self.m, self.left = torch.zeros(3), [torch.nn.Identity()] * 6
def box(self): self.box = Box(); self.box.count = numpy.int64(0)
look("tensor", lambda self: setattr(self, "m", torch.zeros(3, 4)), lambda self, p: self.m.add_(p.grad))
look("data", lambda self: setattr(self, "m", torch.zeros(3, 4)), lambda self, p: self.m.data.add_(p.grad))
look("list", lambda self: setattr(self, "m", [torch.zeros(3, 4)]), lambda self, p: self.m[0].add_(p.grad))
look("dict", lambda self: setattr(self, "m", {}), lambda self, p: self.m.update({p: p.grad}))
look("deque", lambda self: setattr(self, "m", collections.deque(maxlen=3)), lambda self, p: self.m.append(1.0))
look("emptied", lambda self: setattr(self, "m", [3, 4]), lambda self, p: self.m.pop())
look("numpy", lambda self: setattr(self, "m", numpy.int64(0)), lambda self, p: setattr(self, "m", self.m + 1))
look("array", lambda self: setattr(self, "m", numpy.zeros(3)), lambda self, p: self.m.__iadd__(1))
look("group", lambda self: self.param_groups[0].update(m=torch.zeros(3)), lambda self, p: self.param_groups[0]["m"].add_(1))
look("object", box, lambda self, p: setattr(self.box, "count", self.box.count + 1))
look("generator", lambda self: setattr(self, "m", torch.Generator()), lambda self, p: torch.rand(1, generator=self.m))
look("random", lambda self: setattr(self, "m", random.Random(1)), lambda self, p: self.m.random())
look("mark", lambda self: setattr(self, "_ready", False), lambda self, p: setattr(self, "_ready", True))
def at_the_fifth(self, p):
    self.left.pop()
    if len(self.left) == 1: self.m.data.add_(1)
look("saved", late, at_the_fifth, in_steps=5)
# What steps leave alone, or what is no state.
def others(self):
    self.kept, self.params = [torch.full((3,), float("nan")), 1, "text", None], list(self.param_groups[0]["params"])
    self.views = [each.data for each in self.params]
    self.log, self.betas, self.made = logging.getLogger("x"), numpy.float64(0.9), None
    self.cache = [[None, None, None] for _ in range(10)]
def radam(self, p):
    self.log.isEnabledFor(10)
    self.made = [each for each in self.params]
    self.cache[3][:] = [3, 0.5, 0.1]
look("others", others, radam, in_steps=4)
def at_once(self): self.least = self.m = 0
look("at once", at_once, lambda self, p: setattr(self, "m", self.m + 1))
)")});
  EXPECT_EQ(outcome.out, R"(tensor m
data m
list m[0]
dict m[parameter 0]
deque m[0]
emptied m[1]
numpy m
array m
group param_groups[0]['m']
object box.count
generator m
random m
mark _ready
saved m
others taken
at once the optimizer's steps change its m: keep it as a number in param_groups or in the state of a parameter: only these are saved
)") << outcome.err;
}

TEST_F(PythonOptimizers, OptimizersOfTorch_AreTakenAndTheirStateIsHeldOnce) {
  const Outcome outcome = python({script("optimizers.py", R"(
import gc, inspect, torch
from rekindle import RekindleError
from rekindle._optimizer import OwnOptimizer, Template
model = torch.nn.Linear(100, 100, bias=False)
def elements():
    gc.collect()
    tensors = [each for each in gc.get_objects() if isinstance(each, torch.Tensor) and each.device.type != "meta"]
    return sum(each.numel() for each in tensors)
def look(make):
    before = elements()
    template = Template(make, model)
    assert elements() < before + 100, (make, elements() - before)
    optimizer = OwnOptimizer(make, model, template, [torch.zeros(each.shape, dtype=each.dtype) for _, each in template.tensors])
    for _ in range(2):
        optimizer.step(1.0, [torch.ones(100, 100)])
    optimizer.save()
    optimizer.load()
    optimizer.step(1.0, [torch.ones(100, 100)])
refused = []
for name, each in vars(torch.optim).items():
    if not inspect.isclass(each) or not issubclass(each, torch.optim.Optimizer) or each is torch.optim.Optimizer:
        continue
    for options in {}, {"fused": True}, {"foreach": True}, {"amsgrad": True}, {"momentum": 0.9}:
        if not all(option in inspect.signature(each).parameters for option in options):
            continue
        try:
            look(lambda parameters: each(parameters, lr=0.01, **options))
        except RekindleError as error:
            refused.append(f"{name}: {error}")
print(*refused, sep="\n")
)")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, testing::StartsWith("LBFGS: ")) << outcome.err;
  EXPECT_THAT(outcome.out, testing::HasSubstr("SparseAdam: ")) << outcome.err;
  EXPECT_EQ(times_in(outcome.out, "\n"), 2U) << outcome.out;
}

// For groups by name, without a second model.
TEST_F(PythonOptimizers, FunctionOfNamedParameters_GetsThePairs) {
  const Outcome outcome = python({script("named.py", R"(
import torch
from torch import nn
from rekindle._optimizer import OwnOptimizer, Template
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
model[2].weight.requires_grad_(False)
def make(named_parameters):
    assert [name for name, _ in named_parameters] == [name for name, _ in model.named_parameters()]
    groups = {True: [], False: []}
    for name, parameter in named_parameters:
        groups[name.endswith("bias")].append(parameter)
    return torch.optim.AdamW([{"params": groups[True], "weight_decay": 0.0}, {"params": groups[False]}], lr=0.1)
template = Template(make, model)
optimizer = OwnOptimizer(make, model, template, [torch.zeros(each.shape, dtype=each.dtype) for _, each in template.tensors])
print([[len(each.shape) for each in group["params"]] for group in optimizer.optimizer.param_groups])
)")});
  EXPECT_EQ(outcome.out, "[[1, 1, 1], [2, 1, 2]]\n") << outcome.err;
}

TEST_F(PythonOptimizers, SchedulerInTheFunctionOfTheOptimizer_Refused) {
  expect_refused(
      R"(
def optimizer(parameters):
    made = torch.optim.SGD(parameters, lr=0.1)
    torch.optim.lr_scheduler.OneCycleLR(made, max_lr=0.1, total_steps=100)
    return made
options["optimizer"] = optimizer
)",
      78, "the optimizer has a scheduler of its rates, which would never step: give run() a schedule=");
}

TEST_F(PythonOptimizers, FunctionThatMakesTwoOptimizers_Refused) {
  expect_refused(R"(
options["optimizer"] = lambda parameters: (torch.optim.SGD(parameters[:2], lr=0.1), torch.optim.SGD(parameters[2:], lr=0.1))
)",
                 78,
                 "optimizer made tuple: a run has one optimizer: several, as of a GAN, are not supported");
}

TEST_F(PythonOptimizers, OptimizerWhoseStepFails_ItsOwnErrorIsShown) {
  expect_refused(
      R"(
class Wrong(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        len(3)
options["optimizer"] = lambda parameters: Wrong(parameters, lr=0.1)
)",
      78, "the optimizer's step() failed: TypeError: object of type 'int' has no len(): it gets dense");
}

}  // namespace
}  // namespace rekindle::process_test
