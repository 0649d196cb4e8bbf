"""Deep Q-learning with a target network and a replay memory balances a pole for 120 of 200 steps, in ten seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: Mnih et al. 2015,
doi:10.1038/nature14236; double Q-learning by van Hasselt et al. 2015, arXiv:1509.06461.
"""

import random
from collections import deque

import numpy as np

import retrograd as torch
from data import CartPole, run

nn, F = torch.nn, torch.nn.functional


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 128)
        self.fc2 = nn.Linear(128, 128)
        self.fc3 = nn.Linear(128, 2)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def sample(memory):
    s, a, r, s2, mask = zip(*random.sample(memory, 64), strict=True)
    return (
        torch.tensor(np.array(s), dtype=torch.float),
        torch.tensor(a).unsqueeze(1),
        torch.tensor(r).unsqueeze(1),
        torch.tensor(np.array(s2), dtype=torch.float),
        torch.tensor(mask).unsqueeze(1),
    )


def main(steps=12000, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    random.seed(0)
    game = CartPole()
    memory: deque[tuple] = deque(maxlen=10_000)
    q, target = QNet(), QNet()
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=5e-4)
    if compiled:
        q, target = map(torch.compile, (q, target))
    state = game.reset()
    for step in range(steps):
        explore = max(0.02, 1 - step / (0.3 * steps))
        if random.random() < explore:
            action = random.randint(0, 1)
        else:
            with torch.no_grad():
                action = q(torch.from_numpy(state)).argmax().item()
        new, reward, done = game.step(action)
        fell = done and game.steps < 200
        memory.append((state, action, reward / 10, new, 0.0 if fell else 1.0))
        state = game.reset() if done else new
        if step >= 500 and step % 2 == 0:
            s, a, r, s2, mask = sample(memory)
            with torch.no_grad():
                best = q(s2).argmax(1, keepdim=True)
                wanted = r + 0.98 * target(s2).gather(1, best) * mask
            loss = F.smooth_l1_loss(q(s).gather(1, a), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 200 == 0:
            target.load_state_dict(q.state_dict())
        if step % 2000 == 1999:
            print(f"step {step + 1:5d}  loss {loss.item():.4f}")
    total = 0.0
    for _ in range(10):
        state, done = game.reset(), False
        while not done:
            with torch.no_grad():
                state, reward, done = game.step(q(torch.from_numpy(state)).argmax().item())
            total += reward
    return "steps balanced", total / 10


if __name__ == "__main__":
    run(main)
