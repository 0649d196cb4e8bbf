"""An LSTM learns Python's help texts character by character: 2.6 bits per character in five seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd.
"""

import math

import numpy as np

import retrograd as torch
from data import run, text

nn, F = torch.nn, torch.nn.functional


class CharRNN(nn.Module):
    def __init__(self, characters, hidden=128):
        super().__init__()
        self.encoder = nn.Embedding(characters, 64)
        self.rnn = nn.LSTM(64, hidden, num_layers=1, batch_first=True)
        self.decoder = nn.Linear(hidden, characters)

    def forward(self, codes, state=None):
        y, state = self.rnn(self.encoder(codes), state)
        return self.decoder(y), state


def main(steps=400, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    codes, characters = text()
    held_out, codes = codes[-20_000:], codes[:-20_000]
    streams = torch.from_numpy(codes[: len(codes) // 32 * 32].reshape(32, -1))
    model = CharRNN(characters)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    if compiled:
        model = torch.compile(model)
    state, place = None, 0
    for step in range(steps):
        if place + 65 > streams.size(1):
            state, place = None, 0
        if state is not None:
            state = tuple(s.detach() for s in state)
        logits, state = model(streams[:, place : place + 64], state)
        loss = F.cross_entropy(logits.reshape(-1, characters), streams[:, place + 1 : place + 65].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        place += 64
        if step % 100 == 0:
            print(f"step {step:4d}  bits per character {loss.item() / math.log(2):.3f}")
    model.eval()
    windows = torch.from_numpy(np.lib.stride_tricks.sliding_window_view(held_out, 101)[::100].copy())
    with torch.no_grad():
        logits, _ = model(windows[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), windows[:, 1:])
    return "bits per character", loss.item() / math.log(2)


if __name__ == "__main__":
    run(main)
