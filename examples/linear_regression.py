"""Linear regression by gradient descent: finds 20 coefficients to within 0.01 in a second.

With PyTorch: write ``import torch`` in place of the import of retrograd.
"""

import numpy as np

import retrograd as torch
from data import batches, run

nn = torch.nn


def main(epochs=20, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    random = np.random.default_rng(0)
    true = random.normal(0, 1, (20, 1)).astype(np.float32)
    x = random.normal(0, 1, (2000, 20)).astype(np.float32)
    y = x @ true + 0.5 + random.normal(0, 0.1, (2000, 1)).astype(np.float32)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)

    model = nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    criterion = nn.MSELoss()

    def learn(chosen):
        loss = criterion(model(inputs[chosen]), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        learn = torch.compile(learn)
    for batch in batches(2000, 50, epochs):
        loss = learn(torch.from_numpy(batch))
    print(f"loss {loss.item():.4f}, bias {model.state_dict()['bias'].item():.3f}")
    return "largest error of a coefficient", float((model.weight.detach().numpy()[0] - true[:, 0]).__abs__().max())


if __name__ == "__main__":
    run(main)
