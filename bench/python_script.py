"""A model of bench/models.py as a Python script: `rekindle local ... bench/python_script.py MODEL`. The command line has the
length of the run, the sizes of a batch and of its parts, and whatever else does not belong to the model.
"""
import argparse
import os
import time

import rekindle
from models import MODELS, Samples, loss


def noted(name):
    """The loss function, which adds a line to the file `name`: process id, seconds since the epoch."""
    def noted_loss(model, batch):
        with open(name, "a") as file:
            print(os.getpid(), time.time(), file=file)
        return loss(model, batch)
    return noted_loss


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--optimizer", choices=("rekindle", "torch"), default="rekindle", help="whose optimizer")
    parser.add_argument("--forwards", metavar="FILE", help="gets a line for each forward pass")
    args = parser.parse_args()
    row = MODELS[args.model]
    ours = getattr(rekindle, row.optimizer.name)(**row.optimizer.options)
    rekindle.run(model=row.make, loss=noted(args.forwards) if args.forwards else loss,
                 train_data=lambda: Samples(args.model, args.image_size),
                 optimizer=row.optimizer if args.optimizer == "torch" else ours)
