"""Fault-tolerant data-parallel training of PyTorch models: the same bits, whatever happened on the way.

    import rekindle

    rekindle.run(
        model=make_model,        # () -> nn.Module; or a module
        loss=loss,               # (model, batch) -> scalar tensor: the mean over the batch that it gets
        train_data=make_train,   # () -> map-style Dataset; or a Dataset
        optimizer=rekindle.SGD(lr=0.01, momentum=0.9),
        batch_size=128, epochs=10, run_dir="run", workers=2)

`python train.py` then trains on this machine; `rekindle local`, `rekindle slurm` and `rekindle submit` take the
script in place of a model. The processes are those of the C++ program: a coordinator, workers, and trainers. Only the
trainers run the script, each of them in an interpreter of its own, and nothing that the script computes may depend on
their number.

    run = rekindle.open("run")              # status(), metrics() as numpy columns, checkpoints()
    model = rekindle.load("run", Net())     # the newest checkpoint, verified

Errors that a person can mend are a RekindleError.
"""

import sys

# Before the imports: older versions fail there, without saying why.
if sys.version_info < (3, 10):
    raise ImportError(f"rekindle needs Python 3.10 or newer, and {sys.executable} is {sys.version.split()[0]}: "
                      "activate an environment with a newer one, or name its python with --python")

from rekindle._call import run  # noqa: E402
from rekindle._errors import RekindleError
from rekindle._results import Run, load, open  # noqa: A004
from rekindle.optimizers import SGD, Adadelta, Adam, AdamW, RMSprop
from rekindle.schedules import Constant, Cosine, Exponential, Linear, MultiStep, Step

__version__ = "0.1.0"
__all__ = [
    "run", "open", "load", "Run", "RekindleError",
    "SGD", "Adam", "AdamW", "Adadelta", "RMSprop",
    "Step", "MultiStep", "Cosine", "Linear", "Exponential", "Constant",
]  # fmt: skip
