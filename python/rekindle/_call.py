"""rekindle.run(): the call in a script. What it does depends on who runs the script."""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, SupportsFloat

from rekindle._arguments import check_function, check_names, check_once, is_factor, makes_optimizer, text_of
from rekindle._caller import check_caller, check_file, check_first_call
from rekindle._errors import USAGE, RekindleError, end_with_one_line, one_line
from rekindle._process import run_program
from rekindle._programs import environment, program
from rekindle._results import Run, load
from rekindle._script_folder import PACKAGE_VARIABLE, of_m
from rekindle._started import from_start, of_script, variables_of_script
from rekindle.optimizers import SGD, Optimizer
from rekindle.schedules import Schedule

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.utils.data import Dataset


class MapStyle(Protocol):
    """Samples by their index, as in a list, or in a torch.utils.data.Dataset that has a length."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


Sums = Mapping[str, tuple[SupportsFloat, SupportsFloat]]  # sum and count of each metric: numbers, or tensors of one element
Loss = Callable[["nn.Module", Any], "Tensor | tuple[Tensor, Sums]"]
Metrics = Callable[["nn.Module", Any], Sums]


@dataclass
class Call:
    """The arguments of a call of run()."""

    model: Callable[[], nn.Module] | nn.Module
    loss: Loss
    train_data: Callable[[], Dataset | MapStyle] | Dataset | MapStyle
    test_data: Callable[[], Dataset | MapStyle] | Dataset | MapStyle | None
    metrics: Metrics | None
    collate: Callable[[list], Any] | None
    test_collate: Callable[[list], Any] | None  # run() sets it to `collate` by default
    make_optimizer: Callable[[list], torch.optim.Optimizer] | None = None  # of the script's own
    factor: Callable[..., float] | None = None  # of its learning rates: a schedule of the script
    options: dict[str, str] = field(default_factory=dict)  # of the command line, without dashes


# Called with the Call in place of a run on this machine, and with what run() raises there. They do not return. Set by
# rekindle.trainer.
on_call: Callable[[Call], None] | None = None
on_error: Callable[[BaseException], None] | None = None

_Arguments = ParamSpec("_Arguments")
# Options that are paths.
_PATHS = {"run-dir", "init", "status-html", "metrics-token-file", "metrics-targets"}


def _errors_end_here(run: Callable[_Arguments, Run]) -> Callable[_Arguments, Run]:
    """In a trainer, an error of run() must not go through the script, which may catch it and go on."""

    @functools.wraps(run)
    def run_to_its_end(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> Run:
        try:
            return run(*arguments, **named)
        except BaseException as error:
            if on_error is not None:
                on_error(error)
            if isinstance(error, RekindleError):
                end_with_one_line(error)
            raise

    return run_to_its_end


@_errors_end_here
def run(
    model: Callable[[], nn.Module] | nn.Module,
    loss: Loss,
    train_data: Callable[[], Dataset | MapStyle] | Dataset | MapStyle,
    test_data: Callable[[], Dataset | MapStyle] | Dataset | MapStyle | None = None,
    metrics: Metrics | None = None,
    collate: Callable[[list], Any] | None = None,
    optimizer: Optimizer | Callable[[list], torch.optim.Optimizer] | None = None,
    schedule: Schedule | Callable[[int], float] | Callable[[int, int], float] | None = None,
    batch_size: int = 128,
    micro_batches: int | None = None,
    epochs: int | None = None,
    seed: int = 1,
    run_dir: str | os.PathLike[str] = "run",
    workers: int = 1,
    steps: int | None = None,
    test_collate: Callable[[list], Any] | None = None,
    **options: Any,
) -> Run:
    """Trains a model, and returns when the run is complete.

    model: makes the module, or is it. Parameters are float32, of any shape, on the CPU. A function saves memory: a
        module's initial values are kept for a run that has to begin anew. If run() returns, a module has the values
        that load(run_dir, model) gives it.
    loss: (model, batch) -> float tensor of shape [], the mean over the samples of `batch`. In training that is a
        micro-batch: what `collate` makes of batch_size / micro_batches samples, most often tensors of shape [samples, ...].
        Or that tensor and metrics as below, (loss, {"accuracy": (sum, count)}): then the lines of steps have them as
        accuracy, and those of evaluations as test_accuracy. In training and for test samples, always of the same names.
    train_data, test_data: a map-style data set (with __len__ and __getitem__), or a function that makes it. It may
        draw random numbers (torch, numpy, random): the generators are seeded for each sample.
    metrics: (model, batch) -> {"accuracy": (sum, count), ...}, two numbers for each of at most 15 names, over a batch of
        test samples of any size, under no_grad(). metrics.jsonl gets sum / count over all test samples as test_accuracy.
        For numbers that the loss does not compute anyway.
    collate: [sample, ...] -> batch; default: torch.utils.data.default_collate, which gives tensors a first dimension.
    test_collate: the same for test samples; default: `collate`. A `collate` that mixes samples needs another one here.
    optimizer: rekindle.SGD, Adam, AdamW, Adadelta or RMSprop; default: SGD(). Or [parameter, ...] ->
        torch.optim.Optimizer, without a closure: every trainer then updates the whole model. A function whose parameter is
        called named_parameters gets [(name, parameter), ...].
    schedule: rekindle.Cosine, ...; default: the optimizer's rate, always. Or a function, (step) or (step, steps) -> factor
        of the optimizer's rates, the step counted from 0. `steps` is the length of the run at its first start.
    batch_size: samples of a step, over all trainers.
    micro_batches: equal parts of the batch, a power of two: at most so many trainers work, and it is part of the bits.
        Default: the largest up to 32 that leaves each part 8 samples.
    epochs, steps: length of the run in passes over train_data or in updates, one of them; default: 10 epochs. E epochs are
        ceil(E * len(train_data) / batch_size) updates. --epochs or --steps of the command line takes the place of both.
    seed: of all random numbers, from 0 on.
    run_dir: where the run is kept; a run that is there already goes on.
    workers: trainers on this machine; in a Slurm job there is one worker a node.
    options: every other job option of `rekindle local --help-all`, with underscores: keep=3, loader_threads=4,
        checkpoint_interval="10min", clip_norm=1.0, ema=0.999, precision="bf16", ...

    `python train.py` trains on this machine, and exits with the command line's exit code if the run does not
    complete (75: saved, the same command goes on). In trainers, and under `rekindle local`, `slurm` and `submit`, run()
    does not return.

    Errors (RekindleError): an argument that cannot be taken; a second call of run(); a call outside of a script, or
    while it is imported. What the run finds only when it computes, such as a loss of another shape, ends it with a line
    and an exit code.
    """
    check_names(options)
    for part, given_part in (("optimizer", optimizer), ("schedule", schedule)):
        if isinstance(given_part, (Optimizer, Schedule)):
            check_once(options, part, given_part.options())
    if optimizer is None:
        optimizer = SGD()
    makes, own_factor = makes_optimizer(optimizer), is_factor(schedule)
    for name, value, arguments in (
        ("loss", loss, ["model", "batch"]), ("metrics", metrics, ["model", "batch"]), ("collate", collate, ["samples"]),
        ("test_collate", test_collate, ["samples"]),
    ):  # fmt: skip
        if value is not None:
            check_function(name, value, arguments)
    if metrics is not None and test_data is None:
        raise RekindleError("metrics without test_data", "they are computed on test samples", USAGE)
    if test_collate is not None and test_data is None:
        raise RekindleError("test_collate without test_data", "it makes batches of test samples", USAGE)
    chosen = {"optimizer": "script"} if makes else optimizer.options()
    chosen.update({"schedule": "constant"} if schedule is None or own_factor else schedule.options())
    given = {
        "batch_size": batch_size, "micro_batches": micro_batches, "seed": seed, "run_dir": run_dir, "workers": workers,
        **options,
    }  # fmt: skip
    if steps is not None:
        given["steps"] = steps
    if epochs is not None or steps is None:
        given["epochs"] = 10 if epochs is None else epochs
    chosen.update({name.replace("_", "-"): text_of(name, value) for name, value in given.items() if value is not None})
    call = Call(
        model, loss, train_data, test_data, metrics, collate, collate if test_collate is None else test_collate,
        make_optimizer=optimizer if makes else None, factor=schedule if own_factor else None, options=chosen,
    )  # fmt: skip
    if on_call is not None:
        on_call(call)
    return _train_here(call)


def _check_started_once() -> None:
    """Launchers of other libraries start the script once for each process; each would begin the same run."""
    for launcher, variable, number, instead in (
        ("torchrun", "WORLD_SIZE", "RANK", "rekindle local --trainers-per-worker N"),
        ("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "rekindle slurm"),
        ("mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "rekindle local --trainers-per-worker N"),
    ):
        count = os.environ.get(variable, "")
        if count.isdigit() and int(count) > 1 and number in os.environ:
            script = os.path.basename(sys.argv[0])
            apart = f"; if each is a run of its own: rekindle local --run-dir DIR {script}, with another DIR for each"
            raise RekindleError(
                f"{launcher} has started this script {count} times ({variable})",
                f"start it once, and rekindle starts the trainers: {instead} {script}{apart if launcher == 'srun' else ''}",
                USAGE,
            )


def _fill(model: Callable[[], nn.Module] | nn.Module, run_dir: str) -> None:
    """A script that gives a module goes on with it as after its own loop. Whatever fails here, the run is complete."""
    from torch import nn

    if not isinstance(model, nn.Module):
        return
    try:
        load(run_dir, model)
    except Exception as error:
        reason = str(error) if isinstance(error, RekindleError) else one_line(error)
        what = "run() leaves the model with its values from before the run"
        print(f"rekindle: warning: {what}: {reason}", file=sys.stderr)


def _train_here(call: Call) -> Run:
    """Runs `rekindle local` with this script."""
    importing = getattr(multiprocessing.current_process(), "_inheriting", False)  # the script, in a process of spawn
    if importing or multiprocessing.parent_process() is not None:
        raise RekindleError(
            "run() is called in a process of multiprocessing",
            'put it, and what only the main process does, under if __name__ == "__main__": '
            "(and without mp.spawn: rekindle starts the trainers)", USAGE
        )  # fmt: skip
    check_caller()
    _check_started_once()
    script = variables_of_script().get("__file__")
    if script is None and not threading.main_thread().is_alive() and os.path.isfile(sys.argv[0]):
        script = sys.argv[0]  # Python takes __file__ away at the end of the script, and another thread calls run()
    if script is None:
        raise RekindleError("run() needs a script", "write the training into a file: trainers run it too", USAGE)
    start = of_script()
    check_file(script, start.folder)
    check_first_call(script)
    run_dir = call.options["run-dir"]  # another one if the script runs again, as with the time in it
    command = [program("rekindle"), "local", "--run-dir", from_start(run_dir)]
    for name in sorted(_PATHS & call.options.keys() - {"run-dir"}):
        path = from_start(call.options[name])
        if path != call.options[name]:
            command += [f"--{name}", path]
    command += [script, *start.arguments]
    variables = environment()
    folder, variables[PACKAGE_VARIABLE] = of_m(variables_of_script())
    if folder:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, variables.get("PYTHONPATH", "")]))
    code = run_program(command, variables, start.folder)
    if code != 0:
        sys.exit(code if code > 0 else 128 - code)
    if call.options.get("dry-run") == "true":  # there is no run to go on with
        sys.exit(0)
    _fill(call.model, run_dir)
    return Run(run_dir)
