"""A multi-layer perceptron separates three interleaved spirals: 99 % of the points in a second.

With PyTorch: write ``import torch`` in place of the import of retrograd.
"""

import retrograd as torch
from data import run, spirals

nn, F = torch.nn, torch.nn.functional


def main(steps=1000, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    points, arms = map(torch.from_numpy, spirals())
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def learn():
        loss = F.cross_entropy(model(points), arms)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        learn = torch.compile(learn)
    for step in range(steps):
        loss = learn()
        if step % 200 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}")
    with torch.no_grad():
        accuracy = (model(points).argmax(1) == arms).float().mean().item()
    return "accuracy", accuracy


if __name__ == "__main__":
    run(main)
