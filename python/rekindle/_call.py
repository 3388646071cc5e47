"""rekindle.run(): the call in a script. What it does depends on who runs the script."""

from __future__ import annotations

import functools
import multiprocessing
import numbers
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec

from rekindle._errors import USAGE, RekindleError, can_take
from rekindle._process import run_program
from rekindle._programs import environment, program
from rekindle._results import Run
from rekindle._script_folder import folder_of_m
from rekindle.optimizers import SGD, Optimizer
from rekindle.schedules import Schedule

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.utils.data import Dataset

Loss = Callable[["nn.Module", Any], "Tensor"]
Metrics = Callable[["nn.Module", Any], Mapping[str, "tuple[float, int]"]]


@dataclass
class Call:
    """The arguments of a call of run()."""

    model: Callable[[], nn.Module] | nn.Module
    loss: Loss
    train_data: Callable[[], Dataset] | Dataset
    test_data: Callable[[], Dataset] | Dataset | None
    metrics: Metrics | None
    collate: Callable[[list], Any] | None
    make_optimizer: Callable[[list], torch.optim.Optimizer] | None = None  # of the script's own
    factor: Callable[[int], float] | None = None  # of its learning rates: a schedule of the script
    options: dict[str, str] = field(default_factory=dict)  # of the command line, without dashes


# Called with the Call in place of a run on this machine, and with what run() raises there. They do not return. Set by
# rekindle.trainer.
on_call: Callable[[Call], None] | None = None
on_error: Callable[[BaseException], None] | None = None

_Arguments = ParamSpec("_Arguments")


def _errors_end_here(run: Callable[_Arguments, Run]) -> Callable[_Arguments, Run]:
    """In a trainer, an error of run() must not go through the script, which may catch it and go on."""

    @functools.wraps(run)
    def run_to_its_end(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> Run:
        try:
            return run(*arguments, **named)
        except BaseException as error:
            if on_error is not None:
                on_error(error)
            raise

    return run_to_its_end


def _text(name: str, value: object) -> str:
    """An option's value as on the command line."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):  # numpy's
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(name, each) for each in value)
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):  # numpy's, too, which have a repr() of their own
        return repr(float(value))
    if isinstance(value, str) or hasattr(value, "__fspath__"):
        return str(value)
    raise RekindleError(
        f"run() has no argument {name} that is {type(value).__name__}", "an option is a number, a text, True or False", USAGE
    )


# What to do in place of arguments that other libraries have.
_ELSEWHERE = {
    "use collate": ["collate_fn"],
    "use test_data": ["val_data", "valid_data", "validation_data", "eval_data", "eval_dataset", "test_dataset", "val_dataset"],
    "use train_data": ["dataset", "train_dataset", "data"],
    "give their data sets as train_data and test_data": [
        "dataloader", "loader", "train_loader", "train_dataloader", "train_dataloaders", "val_loader", "val_dataloader",
        "val_dataloaders", "test_loader",
    ],
    "use loss": ["criterion", "loss_fn", "loss_function"],
    "use metrics": ["compute_metrics"],
    "use schedule": ["scheduler", "lr_scheduler"],
    "use clip_norm": ["max_grad_norm", "grad_clip", "gradient_clip_val", "clip"],
    'use precision="bf16"': ["amp", "fp16", "bf16", "scaler", "grad_scaler"],
    "use loader_threads": ["num_workers", "persistent_workers", "prefetch_factor"],
    "use epochs": ["max_epochs", "num_epochs", "num_train_epochs"],
    "use steps": ["max_steps"],
    "use log_interval": ["log_every", "log_every_n_steps"],
    "use batch_size and micro_batches": ["accumulate_grad_batches", "gradient_accumulation_steps"],
    "use on_event": ["callbacks", "callback", "patience"],
    "read RUN_DIR/metrics.jsonl, or use on_event": ["logger", "loggers", "log_writer", "report_to"],
    "use run_dir": ["output_dir", "save_dir", "checkpoint_dir", "default_root_dir"],
    "use run_dir: a run that is there already goes on": ["resume", "resume_from_checkpoint"],
    "use workers, trainers_per_worker and device": ["accelerator", "devices", "gpus", "strategy", "num_nodes"],
    "the samples of every epoch are shuffled": ["shuffle"],
    "the run draws the order of the samples; weights: draw a sample in __getitem__, whose random numbers are seeded": [
        "sampler", "batch_sampler",
    ],
    "the random numbers of each sample are seeded from seed": ["generator", "worker_init_fn"],
    "batches for a GPU are in locked memory already": ["pin_memory", "pin_memory_device"],
    "a batch goes on into the next epoch, so none is smaller": ["drop_last"],
}  # fmt: skip


def _check_names(options: Mapping[str, object]) -> None:
    for hint, names in _ELSEWHERE.items():
        for name in names:
            if name in options:
                raise RekindleError(f"run() has no argument {name}", hint, USAGE)


def _check_once(options: Mapping[str, object], part: str, of_part: Mapping[str, str]) -> None:
    for name in options:
        option = name.replace("_", "-")
        if option in of_part and (option, of_part[option]) != ("warmup-steps", "0"):  # what every schedule has
            raise RekindleError(f"{name} is an argument of run() and one of its {part}", f"give it to the {part} alone", USAGE)


def _check_function(name: str, value: object, arguments: list[str]) -> None:
    of_loss = name == "loss"
    hint = "give a function" + (": lambda model, batch: criterion(model(batch[0]), batch[1])" if of_loss else "")
    is_module = hasattr(value, "register_forward_hook")  # it would be called with outputs and labels
    if not callable(value) or (of_loss and is_module):
        raise RekindleError(f"{name} is {type(value).__name__}", hint, USAGE)
    if not can_take(value, len(arguments)):
        raise RekindleError(f"{name} does not take ({', '.join(arguments)})", hint, USAGE)


@_errors_end_here
def run(
    model: Callable[[], nn.Module] | nn.Module,
    loss: Loss,
    train_data: Callable[[], Dataset] | Dataset,
    test_data: Callable[[], Dataset] | Dataset | None = None,
    metrics: Metrics | None = None,
    collate: Callable[[list], Any] | None = None,
    optimizer: Optimizer | Callable[[list], torch.optim.Optimizer] | None = None,
    schedule: Schedule | Callable[[int], float] | None = None,
    batch_size: int = 128,
    micro_batches: int | None = None,
    epochs: int | None = None,
    seed: int = 1,
    run_dir: str = "run",
    workers: int = 1,
    steps: int | None = None,
    **options: Any,
) -> Run:
    """Trains a model, and returns when the run is complete.

    model: makes the module, or is it. Parameters are float32, of any shape, on the CPU. A function saves memory: a
        module's initial values are kept for a run that has to begin anew.
    loss: (model, batch) -> float tensor of shape [], the mean over the samples of `batch`. In training that is a
        micro-batch: what `collate` makes of batch_size / micro_batches samples, most often tensors of shape [samples, ...].
    train_data, test_data: a map-style data set (with __len__ and __getitem__), or a function that makes it. It may
        draw random numbers (torch, numpy, random): the generators are seeded for each sample.
    metrics: (model, batch) -> {"accuracy": (sum, count), ...}, two numbers for each of at most 15 names, over a batch of
        test samples of any size, under no_grad(). metrics.jsonl gets sum / count over all test samples as test_accuracy.
    collate: [sample, ...] -> batch; default: torch.utils.data.default_collate, which gives tensors a first dimension.
    optimizer: rekindle.SGD, Adam, AdamW, Adadelta or RMSprop; default: SGD(). Or [parameter, ...] ->
        torch.optim.Optimizer, without a closure: every trainer then updates the whole model.
    schedule: rekindle.Cosine, ...; default: the optimizer's rate, always. Or step -> factor of the optimizer's rates,
        the step counted from 0.
    batch_size: samples of a step, over all trainers.
    micro_batches: equal parts of the batch, a power of two: at most so many trainers work, and it is part of the bits.
        Default: the largest up to 32 that leaves each part 8 samples.
    epochs, steps: length of the run in passes over train_data or in updates, one of them; default: 10 epochs.
    seed: of all random numbers, from 0 on.
    run_dir: where the run is kept; a run that is there already goes on.
    workers: trainers on this machine; in a Slurm job there is one worker a node.
    options: every other job option of `rekindle local --help-all`, with underscores: keep=3, loader_threads=4,
        checkpoint_interval="10min", clip_norm=1.0, ema=0.999, precision="bf16", ...

    `python train.py` trains on this machine, and exits with the command line's exit code if the run does not
    complete (75: saved, the same command goes on). In trainers, and under `rekindle local`, `slurm` and `submit`, run()
    does not return.

    Errors (RekindleError): an argument that cannot be taken; a second call of run(); a call outside of a script. What
    the run finds only when it computes, such as a loss of another shape, ends it with a line and an exit code.
    """
    _check_names(options)
    for part, given_part in (("optimizer", optimizer), ("schedule", schedule)):
        if isinstance(given_part, (Optimizer, Schedule)):
            _check_once(options, part, given_part.options())
    if optimizer is None:
        optimizer = SGD()
    makes = not isinstance(optimizer, Optimizer)
    if makes and (not callable(optimizer) or hasattr(optimizer, "param_groups")):
        raise RekindleError(
            f"optimizer is {type(optimizer).__name__}",
            "use rekindle.SGD, ..., or a function: lambda parameters: torch.optim.SGD(parameters, lr=0.1)",
            USAGE,
        )
    own_factor = schedule is not None and not isinstance(schedule, Schedule)
    if own_factor and (isinstance(schedule, type) or not callable(schedule) or not can_take(schedule, 1)):
        raise RekindleError(
            f"schedule is {getattr(schedule, '__name__', type(schedule).__name__)}",
            "use rekindle.Cosine, Step, ..., or a function of the step", USAGE
        )
    for name, value, arguments in (
        ("loss", loss, ["model", "batch"]), ("metrics", metrics, ["model", "batch"]), ("collate", collate, ["samples"]),
    ):  # fmt: skip
        if value is not None:
            _check_function(name, value, arguments)
    if metrics is not None and test_data is None:
        raise RekindleError("metrics without test_data", "they are computed on test samples", USAGE)
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
    chosen.update({name.replace("_", "-"): _text(name, value) for name, value in given.items() if value is not None})
    call = Call(
        model, loss, train_data, test_data, metrics, collate,
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
            raise RekindleError(
                f"{launcher} has started this script {count} times ({variable})",
                f"start it once, and rekindle starts the trainers: {instead} {os.path.basename(sys.argv[0])}", USAGE
            )


_runs = 0  # calls of run() in this process


def _train_here(call: Call) -> Run:
    """Runs `rekindle local` with this script."""
    global _runs
    importing = getattr(multiprocessing.current_process(), "_inheriting", False)  # the script, in a process of spawn
    if importing or multiprocessing.parent_process() is not None:
        raise RekindleError(
            "run() is called in a process of multiprocessing",
            'put it, and what only the main process does, under if __name__ == "__main__":', USAGE
        )
    _runs += 1
    if _runs > 1:  # trainers never come behind the first one
        raise RekindleError("the script calls run() a second time", "write a script for each run", USAGE)
    _check_started_once()
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is None:
        raise RekindleError("run() needs a script", "write the training into a file: trainers run it too", USAGE)
    run_dir = call.options["run-dir"]  # another one if the script runs again, as with the time in it
    command = [program("rekindle"), "local", "--run-dir", run_dir, script, *sys.argv[1:]]
    variables = environment()
    if folder := folder_of_m():
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, variables.get("PYTHONPATH", "")]))
    code = run_program(command, variables)
    if code != 0:
        sys.exit(code if code > 0 else 128 - code)
    if call.options.get("dry-run") == "true":  # there is no run to go on with
        sys.exit(0)
    return Run(run_dir)
