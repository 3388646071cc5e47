// Parameters that are not trained, or not always (docs/python.md): teachers, and layers that thaw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "python_state_fixture.hpp"

namespace rekindle::process_test {
namespace {

using PythonFrozen = PythonState;

// A copy of its student: the mean of both changes nothing until the first update.
constexpr const char* kTeacher = R"(
import copy
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = nn.Linear(4, 3)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        with torch.no_grad():
            for parameter in [*self.student.parameters(), *self.teacher.parameters()]:
                parameter.fill_(0.5)
    def forward(self, values):
        for of_teacher, of_student in zip(self.teacher.parameters(), self.student.parameters()):
            of_teacher.data.mul_(0.5).add_(of_student.data, alpha=0.5)
        return self.student(values) + self.teacher(values)
)";

TEST_F(PythonFrozen, TeacherThatChangesThroughData_RefusedAfterTheFirstUpdate) {
  const Outcome outcome = outcome_of("refused", 1, with(str(kTeacher, "options['model'] = Pair\n")));
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out + outcome.err,
              testing::HasSubstr("step 1, micro-batch 0: the script changed parameter teacher.weight through "
                                 ".data while it computed a gradient"));
}

// The rates may be 0 in the first steps. Later ones are not looked at, which would cost time in each.
TEST_F(PythonFrozen, ChangeThroughData_IsFoundInTheFirstStepsOfATrainer) {
  const Outcome outcome = python({script("checks.py", str(kBegin, kTeacher, R"(
from rekindle._checks import Checks
from rekindle._model import Tensors
def first_step_that_finds(update_at, begin=0):
    model = Pair()
    tensors = Tensors(model)
    checks = Checks(tensors, [each.data for each in tensors.parameters.values()])
    for step in range(begin, begin + 10):
        for _ in range(2):
            sums = checks.sums(step)
            model(torch.ones(4))
            try:
                checks.sums_kept(sums)
            except rekindle.RekindleError as error:
                return step, error.what
        if step == update_at:
            model.student.weight.data.add_(1)
    return None
print(first_step_that_finds(0), first_step_that_finds(2), first_step_that_finds(7), first_step_that_finds(50, begin=50))
)"))});
  EXPECT_EQ(
      outcome.out,
      "(1, 'the script changed parameter teacher.weight through .data while it computed a gradient') "
      "(3, 'the script changed parameter teacher.weight through .data while it computed a gradient') "
      "None "
      "(51, 'the script changed parameter teacher.weight through .data while it computed a gradient')\n")
      << outcome.err;
}

TEST_F(PythonFrozen, TeacherWhoseMemoryIsReplaced_TheHintNamesBuffers) {
  expect_refused(
      R"(
def replacing(model, batch):
    model[0].weight.data = 0.9 * model[0].weight.data
    return loss(model, batch)
options["loss"] = replacing
)",
      70,
      "the script replaced the memory of parameter 0.weight: leave .data alone; what a forward pass "
      "changes has to be a buffer");
}

// As the adjacency matrix of a graph.
TEST_F(PythonFrozen, SparseBuffer_IsTakenIfItIsNotPartOfTheState) {
  const char* lines = R"(
class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("graph", torch.eye(4).to_sparse(), persistent=PERSISTENT)
    def forward(self, values):
        return super().forward(torch.sparse.mm(self.graph, values.T).T)
options["model"] = Net
)";
  expect_refused(str("PERSISTENT = True", lines), 78,
                 "the model's tensor graph is sparse or empty: use dense tensors with elements, or "
                 "persistent=False, if the buffer does not change");
  EXPECT_EQ(bits("w1", 1, with(str("PERSISTENT = False", lines))).size(), 33U);
}

// The optimizer begins its state of a parameter with the first gradient, and a run's state has its shape from
// the first step on.
TEST_F(PythonFrozen, PartThatThawsUnderAnOptimizerOfTheScript_NeedsGradientsFromTheFirstStep) {
  const Outcome outcome = python({script("thaws.py", str(kBegin, R"(
from rekindle._optimizer import OwnOptimizer, Template
def trained(is_frozen_by_flag):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    model[0].requires_grad_(not is_frozen_by_flag)
    def make(parameters):
        return torch.optim.AdamW(parameters, lr=0.1)
    template = Template(make, model)
    memory = [torch.zeros(each.shape, dtype=each.dtype) for _, each in template.tensors]
    optimizer = OwnOptimizer(make, model, template, memory)
    for step in range(4):
        model[0].requires_grad_(step >= 2 or not is_frozen_by_flag)
        with torch.set_grad_enabled(step >= 2 or is_frozen_by_flag):
            first = model[0](torch.ones(2, 4))
        model[1](first).sum().backward()
        gradients = [each.grad for each in model.parameters()]
        model.zero_grad()
        optimizer.step(1.0, gradients)
        optimizer.save()
        optimizer.load()
    return [int(optimizer.optimizer.state[each]["step"]) for each in model.parameters()]
print(trained(is_frozen_by_flag=False))
try:
    trained(is_frozen_by_flag=True)
except rekindle.RekindleError as error:
    print(error)
)"))});
  EXPECT_EQ(outcome.out,
            "[2, 2, 4, 4]\nthe optimizer made step of 0.weight, which its first steps did not: use another "
            "optimizer; for a part that is frozen at first: one of rekindle, or torch.set_grad_enabled() in "
            "place of requires_grad\n")
      << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
