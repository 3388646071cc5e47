"""A module that returns an object with `.loss`, as those of Hugging Face's transformers do.

    rekindle local outputs.py
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

import rekindle


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, input_ids, labels):
        logits = self.head(self.embedding(input_ids).mean(1))
        return Output(functional.cross_entropy(logits, labels), logits)


class Sentences(torch.utils.data.Dataset):
    """Ten words each; the label says whether most of them are from the first half of the vocabulary."""

    def __len__(self):
        return 512

    def __getitem__(self, index):
        words = torch.randint(50, (10,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": (words < 25).sum() > 5}


def collate(samples):
    return {
        "input_ids": torch.stack([sample["input_ids"] for sample in samples]),
        "labels": torch.stack([sample["labels"] for sample in samples]).long(),
    }


rekindle.run(
    model=Classifier,
    loss=lambda model, batch: model(**batch).loss,
    train_data=Sentences,
    collate=collate,
    optimizer=rekindle.Adam(lr=0.01),
    batch_size=64,
    epochs=20,
    run_dir="runs/outputs",
)
