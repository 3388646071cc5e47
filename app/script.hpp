// A training in Python: the script of a command line, and what it says about itself.
//
//   rekindle local [OPTIONS] SCRIPT [ITS OWN ARGUMENTS]
//
// The program of python/rekindle/trainer.py, with `--describe FOLDER SCRIPT SEED OPTIONS ARGUMENTS...`, runs
// the script up to its rekindle.run(), and answers with one line of JSON (SEED: of the command line; empty:
// the script's. OPTIONS: Script::given as JSON):
//
//   {"options": {"batch-size": "128", ...},                  the options in the call, as text
//    "tensors": [{"name", "dtype", "shape", "role"}, ...],   parameters, buffers, own optimizer
//    "tied": [OTHER NAME, NAME, ...],                        keys of the state dict for the same tensor
//    "train_samples": N, "test_samples": N, "metrics": ["accuracy", ...],
//    "metrics_known": true,                                  ScriptDescription::metrics_known
//    "build": "0.1.0-...",                                   rk_build() of the library that it has loaded
//    "has_gpu": true, "no_gpu": ""}                          ScriptDescription::has_gpu and no_gpu
//
// or {"error": {"code", "what", "hint"}}; if the script left the process, with exit code 64: what it printed
// before that is shown, such as the help of argparse. With `--evaluate FOLDER SCRIPT JOB ARGUMENTS...` it
// reads the tensors of a .safetensors file from stdin, and answers as the C++ trainer program does
// (app/evaluate.cpp).
#pragma once

#include <string>
#include <vector>

#include "app/options.hpp"
#include "app/trainer_question.hpp"
#include "base/result.hpp"
#include "checkpoint/state.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// Takes the script and what stands behind it out of the command line of a command that trains. None: the
// result is empty. The programs that a run keeps have the script's copy with them, which then takes its
// place.
// The script's own arguments end before "--", which in `submit` begins sbatch's options.
Script take_script(std::vector<std::string>& arguments);

// Runs the script. Errors (ExitCode::kConfig): there is no such script, or no interpreter; an exception of
// the script, whose traceback is printed; those that rekindle.run() finds in its arguments; the interpreter
// has imported a package of another build.
Result<ScriptDescription> describe_script(const Script& script);

// For commands that execute what a run.toml of another time names: lets the job's script be the copy in the
// run directory. Errors (ExitCode::kConfig): there is none; the interpreter is gone, or another user could
// have made it, and $REKINDLE_PYTHON names none, or not this one. Jobs without a script pass.
Status use_copy_of_script(protocol::Job& job, const run::Layout& layout);

// The answer of the script's own trainer program to a question: {"--describe", FOLDER, SCRIPT, ...}. Of the
// job, the interpreter, the script's folder and the container are used.
Result<std::string> ask_script(const protocol::Job& job, const TrainerQuestion& question);

// Parameters and buffers, which come before an optimizer's tensors.
checkpoint::StateSpec model_of(const checkpoint::StateSpec& tensors);
// The tensors of the state of a script's job, from `tensors` of its description. Errors (ExitCode::kConfig):
// a checkpoint cannot have them.
Result<checkpoint::StateSpec> state_of_script(const protocol::Job& job, const checkpoint::StateSpec& tensors);

}  // namespace rekindle::app
