"""The arguments of rekindle.run(): checks, and options as on the command line."""

from __future__ import annotations

import collections
import difflib
import numbers
import os
from collections.abc import Mapping, Sequence

from rekindle._errors import ONE_OPTIMIZER, USAGE, RekindleError, are_several, can_take, takes_two
from rekindle.optimizers import Optimizer
from rekindle.schedules import Schedule


# Arguments of run() that no option of the command line has, or that have other values there.
_NO_OPTIONS = "model", "loss", "train_data", "test_data", "metrics", "collate", "test_collate", "optimizer", "schedule"


def text_of(name: str, value: object) -> str:
    """An option's value as on the command line."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):  # numpy's
        return "true" if value else "false"
    is_text = isinstance(value, (str, bytes, bytearray, collections.UserString))
    if isinstance(value, Sequence) and not is_text:  # OmegaConf has lists of its own
        return ",".join(text_of(name, each) for each in value)
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):  # numpy's, too, which have a repr() of their own
        return repr(float(value))
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "__fspath__"):
        return os.fsdecode(value)
    if type(value).__module__ == "torch" and type(value).__name__ == "device":
        if value.index is not None:
            raise RekindleError(f"{name} is {value}", f'give "{value.type}": each trainer takes a GPU of its own', USAGE)
        return value.type
    near = difflib.get_close_matches(name, _NO_OPTIONS, 1, 0.7)
    raise RekindleError(
        f"run() has no argument {name} that is {type(value).__name__}",
        f"did you mean {near[0]}?" if near else "its options are numbers, texts, True or False", USAGE,
    )  # fmt: skip


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
    "use on_event, a shell command": ["callbacks", "callback", "patience"],
    "read RUN_DIR/metrics.jsonl, or use on_event, a shell command": ["logger", "loggers", "log_writer", "report_to"],
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


def check_names(options: Mapping[str, object]) -> None:
    for hint, names in _ELSEWHERE.items():
        for name in names:
            if name in options:
                raise RekindleError(f"run() has no argument {name}", hint, USAGE)


def check_once(options: Mapping[str, object], part: str, of_part: Mapping[str, str]) -> None:
    for name in options:
        option = name.replace("_", "-")
        if option in of_part and (option, of_part[option]) != ("warmup-steps", "0"):  # what every schedule has
            raise RekindleError(f"{name} is an argument of run() and one of its {part}", f"give it to the {part} alone", USAGE)


def check_function(name: str, value: object, arguments: list[str]) -> None:
    of_loss = name == "loss"
    hint = "give a function" + (": lambda model, batch: criterion(model(batch[0]), batch[1])" if of_loss else "")
    is_module = hasattr(value, "register_forward_hook")  # it would be called with outputs and labels
    if not callable(value) or (of_loss and is_module):
        raise RekindleError(f"{name} is {type(value).__name__}", hint, USAGE)
    if not can_take(value, len(arguments)):
        raise RekindleError(f"{name} does not take ({', '.join(arguments)})", hint, USAGE)


def makes_optimizer(optimizer: object) -> bool:
    """Whether it is a function of the script, and not one of rekindle. Errors: neither."""
    if isinstance(optimizer, Optimizer):
        return False
    if are_several(optimizer):
        raise RekindleError(f"optimizer is {type(optimizer).__name__}", ONE_OPTIMIZER, USAGE)
    if isinstance(optimizer, type) and issubclass(optimizer, Optimizer):
        name = optimizer.__name__
        raise RekindleError(f"optimizer is the class {name}", f"give rekindle.{name}(lr=...)", USAGE)
    if not callable(optimizer) or hasattr(optimizer, "param_groups"):
        raise RekindleError(
            f"optimizer is {type(optimizer).__name__}",
            "use rekindle.SGD, ..., or a function: lambda parameters: torch.optim.SGD(parameters, lr=0.1)",
            USAGE,
        )
    return True


def is_factor(schedule: object) -> bool:
    """Whether it is a function of the script, and not one of rekindle or none. Errors: neither."""
    if schedule is None or isinstance(schedule, Schedule):
        return False
    takes = callable(schedule) and can_take(schedule, 2 if takes_two(schedule) else 1)
    if isinstance(schedule, type) or not takes:
        raise RekindleError(
            f"schedule is {getattr(schedule, '__name__', type(schedule).__name__)}",
            "use rekindle.Cosine, Step, ..., or a function of the step: schedule(step), or schedule(step, steps)",
            USAGE,
        )
    return True
