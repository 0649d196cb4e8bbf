"""An actor-critic agent learns to balance a pole for 100 of 200 steps, in half a minute.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: Williams 1992 (REINFORCE), with the
critic's value as the baseline.
"""

import retrograd as torch
from data import CartPole, run

nn, F = torch.nn, torch.nn.functional
Categorical = torch.distributions.Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 128)
        self.action_head = nn.Linear(128, 2)
        self.value_head = nn.Linear(128, 1)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


def main(episodes=200, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    game, model = CartPole(), Policy()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    if compiled:
        model = torch.compile(model)
    lengths = []
    for episode in range(episodes):
        state, done, saved, rewards = game.reset(), False, [], []
        while not done:
            probs, value = model(torch.from_numpy(state).float())
            m = Categorical(probs)
            action = m.sample()
            state, reward, done = game.step(action.item())
            saved.append((m.log_prob(action), value))
            rewards.append(reward)
        lengths.append(len(rewards))
        R, sums = 0.0, [0.0] * len(rewards)
        for t in reversed(range(len(rewards))):
            sums[t] = R = rewards[t] + 0.99 * R
        returns = torch.tensor(sums)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        policy_losses, value_losses = [], []
        for (log_prob, value), wanted in zip(saved, returns, strict=True):
            policy_losses.append(-log_prob * (wanted - value.item()))
            value_losses.append(F.smooth_l1_loss(value, torch.tensor([wanted])))
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
        loss.backward()
        optimizer.step()
        if episode % 50 == 49:
            print(f"episode {episode + 1:4d}  steps {sum(lengths[-50:]) / 50:.1f}")
    return "steps balanced", sum(lengths[-50:]) / len(lengths[-50:])


if __name__ == "__main__":
    run(main)
