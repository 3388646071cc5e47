"""A small language model over the bytes of a text: attention, tied embeddings, AdamW, clipping, cosine with warm-up.

    rekindle local --workers 2 gpt.py /usr/share/common-licenses/GPL-3
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import rekindle

CONTEXT, WIDTH, HEADS, LAYERS = 128, 128, 4, 4


class Contexts(torch.utils.data.Dataset):
    """Parts of a text: CONTEXT bytes, and the byte after each of them."""

    def __init__(self, text):
        self.bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8)

    def __len__(self):
        return (len(self.bytes) - 1) // CONTEXT

    def __getitem__(self, index):
        part = self.bytes[index * CONTEXT : (index + 1) * CONTEXT + 1].long()
        return part[:-1], part[1:]


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(256, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 256, bias=False)
        self.head.weight = self.token.weight
        nn.init.normal_(self.token.weight, std=0.02)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.token(tokens) + self.position.weight[:length]
        return self.head(self.layers(x, mask=self.mask[:length, :length], is_causal=True))


def loss(model, batch):
    tokens, following = batch
    return functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())


text = Path(sys.argv[1]).read_bytes()
split = len(text) * 9 // 10

rekindle.run(
    model=Gpt,
    loss=loss,
    train_data=lambda: Contexts(text[:split]),
    test_data=lambda: Contexts(text[split:]),
    optimizer=rekindle.AdamW(lr=1e-3, weight_decay=0.1),
    schedule=rekindle.Cosine(warmup_steps=20),
    clip_norm=1.0,
    no_decay=["*.bias", "*norm*.weight"],
    batch_size=32,
    micro_batches=4,
    epochs=10,
    run_dir="runs/gpt",
)
