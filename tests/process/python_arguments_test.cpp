// The arguments of rekindle.run() (docs/python.md): what they mean, and one line for each that cannot be
// taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/text.hpp"
#include "protocol/job.hpp"
#include "python_fixture.hpp"

namespace rekindle::process_test {
namespace {

class PythonArguments : public Python {
 protected:
  // What Python prints for an expression.
  std::string value_of(const std::string& expression) const {
    const Outcome outcome =
        python({"-c", str("import rekindle\n"
                          "try:\n    print(",
                          expression,
                          ")\n"
                          "except rekindle.RekindleError as error:\n    print(error)\n")});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    return outcome.out;
  }
};

TEST_F(PythonArguments, UnitTests) {
  const Outcome outcome = python({fs::path(REKINDLE_SOURCE) / "tests/python/arguments.py"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(PythonArguments, PythonThatIsTooOld_IsNamed) {
  const Outcome outcome = python({"-c", "import sys; sys.version_info = (3, 9, 2); import rekindle"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, testing::HasSubstr("ImportError: rekindle needs Python 3.10 or newer, and "));
}

// The same positions as in torch.optim.lr_scheduler.
TEST_F(PythonArguments, ScheduleByPosition_IsTheOneOfTorch) {
  EXPECT_EQ(value_of("rekindle.Exponential(0.95).options()"),
            "{'schedule': 'exponential', 'warmup-steps': '0', 'lr-gamma': '0.95'}\n");
  EXPECT_EQ(value_of("rekindle.Step(20, 0.5, warmup_steps=7).options()"),
            "{'schedule': 'step', 'warmup-steps': '7', 'lr-gamma': '0.5', 'lr-step': '20'}\n");
  EXPECT_EQ(value_of("rekindle.MultiStep([3, 7], 0.2).options()"),
            "{'schedule': 'multi-step', 'warmup-steps': '0', 'lr-gamma': '0.2', 'milestones': '3,7'}\n");
}

// torch's CosineAnnealingLR(T_max) is no warmup of T_max steps.
TEST_F(PythonArguments, ScheduleThatHasNoPositions_Refused) {
  for (const char* name : {"Cosine", "Linear", "Constant"}) {
    const Outcome outcome = python({"-c", str("import rekindle; rekindle.", name, "(10)")});
    EXPECT_EQ(outcome.exit_code, 1) << name;
    EXPECT_THAT(outcome.err, testing::HasSubstr("TypeError")) << name;
  }
}

// In place of a TypeError without advice.
TEST_F(PythonArguments, ArgumentThatTheOptimizerOrScheduleOfTorchHas_SaysWhatToDo) {
  const char* parameters = "has no argument params: leave the parameters out: rekindle.AdamW(lr=...)\n";
  EXPECT_EQ(value_of("rekindle.AdamW(iter([]), lr=0.1)"), str("rekindle.AdamW ", parameters));
  EXPECT_EQ(value_of("rekindle.AdamW(params=[], lr=0.1)"), str("rekindle.AdamW ", parameters));
  EXPECT_EQ(value_of("rekindle.SGD(fused=True)"),
            "rekindle.SGD has no argument fused: leave it out: rekindle has an update of its own\n");
  EXPECT_EQ(value_of("rekindle.Adam(amsgrad=True)"),
            "rekindle.Adam has no argument amsgrad: leave it out, or give optimizer=lambda parameters: "
            "torch.optim.Adam(parameters, ...)\n");
  EXPECT_EQ(value_of("rekindle.Adam(momentum=0.9)"),
            "rekindle.Adam has no argument momentum: it has lr, betas, eps, weight_decay\n");
  EXPECT_EQ(
      value_of("rekindle.Step(step_size=30)"),
      "rekindle.Step has no argument step_size: use epochs, the number of epochs between two changes\n");
  EXPECT_EQ(value_of("rekindle.Step(rekindle.SGD(), 30)"),
            "rekindle.Step has no argument optimizer: leave the optimizer out: a schedule is an argument of "
            "run()\n");
  EXPECT_EQ(value_of("rekindle.Cosine(T_max=10)"),
            "rekindle.Cosine has no argument T_max: it goes to 0 over the run's steps; or give "
            "schedule=lambda step, steps: ..., the factor of the rate\n");
  EXPECT_EQ(value_of("__import__('copy').deepcopy(rekindle.SGD(0.1, 0.9))"),
            "SGD(lr=0.1, momentum=0.9, dampening=0.0, weight_decay=0.0, nesterov=False)\n");
}

TEST_F(PythonArguments, EpochsThatAreNotWhole_Refused) {
  EXPECT_EQ(value_of("rekindle.Step(2.5).options()"), "epochs is 2.5: give a whole number\n");
  EXPECT_EQ(value_of("rekindle.MultiStep([3, 0.5]).options()"), "milestones is 0.5: give a whole number\n");
  EXPECT_EQ(value_of("rekindle.Cosine(warmup_steps=0.1).options()"),
            "warmup_steps is 0.1: give a whole number\n");
  EXPECT_EQ(value_of("rekindle.Step(2.0).options()['lr-step']"), "2\n");
}

TEST_F(PythonArguments, LossThatCannotTakeModelAndBatch_Refused) {
  const char* hint = ": give a function: lambda model, batch: criterion(model(batch[0]), batch[1])\n";
  EXPECT_EQ(value_of("rekindle.run(None, __import__('torch').nn.CrossEntropyLoss(), [])"),
            str("loss is CrossEntropyLoss", hint));
  EXPECT_EQ(value_of("rekindle.run(None, lambda model: 0, [])"),
            str("loss does not take (model, batch)", hint));
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], [], metrics=lambda model: {})"),
            "metrics does not take (model, batch): give a function\n");
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], test_collate=len)"),
            "test_collate without test_data: it makes batches of test samples\n");
}

TEST_F(PythonArguments, OptimizerThatIsAClassOrSeveral_Refused) {
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], optimizer=rekindle.AdamW)"),
            "optimizer is the class AdamW: give rekindle.AdamW(lr=...)\n");
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], optimizer=[rekindle.SGD(), rekindle.Adam()])"),
            "optimizer is list: a run has one optimizer: several, as of a GAN, are not supported\n");
}

TEST_F(PythonArguments, ArgumentThatIsGivenTwice_Refused) {
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], optimizer=rekindle.SGD(lr=0.01), lr=0.1)"),
            "lr is an argument of run() and one of its optimizer: give it to the optimizer alone\n");
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], schedule=rekindle.Step(3), lr_step=4)"),
            "lr_step is an argument of run() and one of its schedule: give it to the schedule alone\n");
}

TEST_F(PythonArguments, NameOfAnotherLibrary_OursIsNamed) {
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], collate_fn=len)"),
            "run() has no argument collate_fn: use collate\n");
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], shuffle=True)"),
            "run() has no argument shuffle: the samples of every epoch are shuffled\n");
  EXPECT_EQ(
      value_of("rekindle.run(None, lambda *all: 0, [], sampler=object())"),
      "run() has no argument sampler: the run draws the order of the samples; weights: draw a sample in "
      "__getitem__, whose random numbers are seeded\n");
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], logger=object())"),
            "run() has no argument logger: read RUN_DIR/metrics.jsonl, or use on_event, a shell command\n");
}

TEST_F(PythonArguments, ObjectForAnOption_SaysSo) {
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], device=object())"),
            "run() has no argument device that is object: its options are numbers, texts, True or False\n");
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], optimiser=rekindle.SGD())"),
            "run() has no argument optimiser that is SGD: did you mean optimizer?\n");
}

// The description of a script tries the last batch of an evaluation and the last factor of a schedule, before
// the command line has resolved the options.
TEST_F(PythonArguments, MicroBatchesAndStepsThatFollowFromOthers_AreThoseOfTheCommandLine) {
  std::string batches, micro_batches, steps;
  for (std::uint64_t batch = 1; batch <= 600; ++batch) {
    protocol::Job job;
    job.batch_size = batch;
    job.train_samples = 1000;
    batches += str(batch, ", ");
    micro_batches += str(batch > 1 ? ", " : "", protocol::default_micro_batches(batch));
    steps += str(batch > 1 ? ", " : "", protocol::steps_for_epochs(job, 3));
  }
  const std::string describe = "__import__('rekindle._describe')._describe.";
  EXPECT_EQ(value_of(str("[", describe, "_default_micro_batches(batch) for batch in [", batches, "]]")),
            str("[", micro_batches, "]\n"));
  EXPECT_EQ(
      value_of(str("[", describe, "_steps_of({'epochs': '3', 'batch-size': str(batch)}, 1000) for batch in [",
                   batches, "]]")),
      str("[", steps, "]\n"));
}

// As those of OmegaConf.
TEST_F(PythonArguments, ListOfAnotherLibrary_IsTakenAsAList) {
  const std::string text_of = "__import__('rekindle._arguments')._arguments.text_of('no_decay', ";
  EXPECT_EQ(value_of(str(text_of, "__import__('collections').UserList(['*.bias', 2]))")), "*.bias,2\n");
  EXPECT_EQ(value_of(str(text_of, "b'*.bias')")),
            "run() has no argument no_decay that is bytes: its options are numbers, texts, True or False\n");
}

// A script may have taken some of sys.argv before it imports rekindle.
TEST_F(PythonArguments, CommandLineOfPython_ScriptOrModuleAndWhatIsBehindIt) {
  EXPECT_EQ(
      value_of("[__import__('rekindle._started')._started.given_to_python(words.split()) for words in "
               "('p -u t.py -m a', 'p -Wignore -X dev t.py', 'p -um pkg.t --lr 1', 'p -c t.py', 'p - x', "
               "'p --check-hash-based-pycs always t.py x', 'p')]"),
      "[('t.py', ['-m', 'a']), ('t.py', []), ('pkg.t', ['--lr', '1']), ('', []), ('-', ['x']), "
      "('t.py', ['x']), ('', [])]\n");
}

// Every trainer would take the same GPU.
TEST_F(PythonArguments, DeviceOfTorch_ItsTypeIsTakenAndANumberRefused) {
  const std::string cpu = "__import__('torch').device('cpu')";
  EXPECT_EQ(value_of(str("__import__('rekindle._arguments')._arguments.text_of('device', ", cpu, ")")),
            "cpu\n");
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], device=__import__('torch').device('cuda:1'))"),
            "device is cuda:1: give \"cuda\": each trainer takes a GPU of its own\n");
}

TEST_F(PythonArguments, ScheduleThatIsAClassOrTakesMore_Refused) {
  const char* hint =
      ": use rekindle.Cosine, Step, ..., or a function of the step: schedule(step), or schedule(step, "
      "steps)\n";
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], schedule=rekindle.Cosine)"),
            str("schedule is Cosine", hint));
  EXPECT_EQ(value_of("rekindle.run(None, lambda *all: 0, [], schedule=lambda optimizer, step, steps: 1)"),
            str("schedule is <lambda>", hint));
}

// A second parameter with a default is the script's own, as the length of a warm-up.
TEST_F(PythonArguments, ScheduleOfTheStep_OrOfTheStepAndTheLengthOfTheRun) {
  const std::string factor = "__import__('rekindle._factor')._factor.";
  for (const auto& [function, expected] :
       {std::pair("lambda step: step / 10", "0.7\n"), std::pair("lambda step, steps: step / steps", "0.35\n"),
        std::pair("lambda step, warmup=14: step / warmup", "0.5\n"), std::pair("float", "7.0\n"),
        std::pair("lambda *all: len(all)", "1\n"),
        std::pair("__import__('functools').partial(lambda total, step: step / total, 28)", "0.25\n")})
    EXPECT_EQ(value_of(str(factor, "of_step(", function, ", 20)(7)")), expected) << function;
  EXPECT_EQ(
      value_of(str(factor, "check_last_factor(lambda step: [1.0] * 18, 18)")),
      "the schedule gives no factor for step 17, the last one of 18: TypeError: float() argument must be "
      "a string or a real number, not 'list': E epochs are ceil(E * samples / batch_size) steps, and "
      "schedule(step, steps) gets their number\n");
  EXPECT_EQ(value_of(str(factor, "check_last_factor(lambda step, steps: 1 - step / steps, 18)")), "None\n");
}

// torch advises to allow it, which a trainer does not.
TEST_F(PythonArguments, OperatorThatIsNotDeterministic_TheHintNamesWhatToDo) {
  const std::string errors = "__import__('rekindle._errors')._errors.";
  const std::string error =
      "RuntimeError('nll_loss2d_out does not have a deterministic implementation, but you set ...')";
  EXPECT_EQ(value_of(str(errors, "one_line(", error, ")")),
            "RuntimeError: nll_loss2d_out does not have a deterministic implementation\n");
  EXPECT_EQ(value_of(str(errors, "hint_for(", error, ")")),
            "use cross_entropy(logits.permute(0, 2, 3, 1).flatten(0, 2), labels.flatten()), if it is that of "
            "images\n");
  for (const auto& [operator_name, advice] :
       {std::pair(
            "adaptive_avg_pool2d_backward_cuda",
            "use AvgPool2d; for torchvision's VGG and AlexNet and images of 224 pixels, model.avgpool = "
            "nn.Identity()\n"),
        std::pair("ctc_loss_backward_gpu",
                  "compute it on the CPU: ctc_loss(log_probs.cpu(), targets.cpu(), ...)\n"),
        std::pair("put_", "use another operator\n")}) {
    EXPECT_EQ(value_of(str(errors, "hint_for(RuntimeError('", operator_name,
                           " does not have a deterministic implementation'))")),
              advice);
  }
}

// As the command line does. What the script catches, and its own errors, stay as they are.
TEST_F(PythonArguments, ErrorThatTheScriptDoesNotCatch_OneLineAndTheExitCode) {
  const std::string call = "rekindle.run(None, lambda *all: 0, [], optimizer=3)\n";
  const Outcome ended = python({script("ended.py", "import rekindle\n" + call)});
  EXPECT_EQ(ended.exit_code, 64);
  EXPECT_EQ(times_in(ended.err, "rekindle: optimizer is int: use rekindle.SGD"), 1U) << ended.err;
  EXPECT_EQ(times_in(ended.err, "Traceback"), 0U) << ended.err;
  const Outcome record = python({script("record.py", "import rekindle\nrekindle.SGD(learning_rate=0.1)\n")});
  EXPECT_EQ(record.exit_code, 64);
  EXPECT_EQ(times_in(record.err, "rekindle: rekindle.SGD has no argument learning_rate: "), 1U) << record.err;
  EXPECT_EQ(times_in(record.err, "Traceback"), 0U) << record.err;
  const Outcome caught =
      python({script("caught.py", "import rekindle\ntry:\n    " + call +
                                      "except rekindle.RekindleError as error:\n"
                                      "    print(error.code)\nraise ValueError('own')\n")});
  EXPECT_EQ(caught.exit_code, 1);
  EXPECT_EQ(caught.out, "64\n");
  EXPECT_EQ(times_in(caught.err, "Traceback"), 1U) << caught.err;
  EXPECT_EQ(times_in(caught.err, "ValueError: own"), 1U) << caught.err;
}

TEST_F(PythonArguments, OptionOfABuiltInModel_64) {
  const Outcome outcome =
      run(Arguments{"local", "--run-dir", scratch_ / "run", "--image-size", "32", everything()});
  EXPECT_EQ(outcome.exit_code, 64);
  EXPECT_EQ(times_in(outcome.err, "--image-size is an option of the built-in models"), 1U) << outcome.err;
}

}  // namespace
}  // namespace rekindle::process_test
