"""An LSTM forecasts the number of sunspots a month ahead, with 5 % less error than "as this month", in a second.

With PyTorch: write ``import torch`` in place of the import of retrograd.
"""

import numpy as np

import retrograd as torch
from data import batches, run, sunspots

nn = torch.nn


class Forecast(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.linear = nn.Linear(hidden, 1)

    def forward(self, window):
        y, (h, c) = self.lstm(window)
        return window[:, -1] + self.linear(h[-1])


def main(epochs=15, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    windows = np.lib.stride_tricks.sliding_window_view(sunspots(), 37).copy()
    x, y = torch.Tensor(windows[:, :-1]).unsqueeze(-1), torch.Tensor(windows[:, -1:])
    count = int(0.8 * len(x))
    model = Forecast()
    criterion = nn.SmoothL1Loss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.998)
    forward = model
    if compiled:
        forward = torch.compile(model)
    for step, batch in enumerate(batches(count, 64, epochs)):
        chosen = torch.LongTensor(batch)
        loss = criterion(forward(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 100 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        error = (model(x[count:]) - y[count:]).pow(2).mean().sqrt().item()
        as_before = (x[count:, -1] - y[count:]).pow(2).mean().sqrt().item()
    print(f"root mean squared error {100 * error:.2f}; of this month's number {100 * as_before:.2f}")
    return "error, this month's number being 1", error / as_before


if __name__ == "__main__":
    run(main)
