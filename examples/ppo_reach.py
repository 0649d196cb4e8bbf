"""Proximal policy optimization with normal actions: points come within 0.1 of their goals in three seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: Schulman et al. 2017,
arXiv:1707.06347, with their generalized advantages, arXiv:1506.02438.
"""

import retrograd as torch
from data import Reach, run

nn = torch.nn
Normal = torch.distributions.Normal
POINTS, LENGTH, GAMMA, LAMBDA, CLIP = 64, 20, 0.95, 0.9, 0.2


def layer_init(layer, std=2**0.5):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, 0.0)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(4, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 1), std=1.0),
        )
        self.actor = nn.Sequential(
            layer_init(nn.Linear(4, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 2), std=0.01),
        )
        self.logstd = nn.Parameter(torch.zeros(1, 2))

    def policy(self, x):
        mean = self.actor(x)
        return Normal(mean, self.logstd.expand_as(mean).exp())


def main(updates=60, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    game, agent = Reach(POINTS), Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)
    if compiled:
        agent.actor, agent.critic = map(torch.compile, (agent.actor, agent.critic))
    for update in range(updates):
        seen, actions, logprobs = (torch.zeros(LENGTH, POINTS, n) for n in (4, 2, 2))
        rewards, values = torch.zeros(LENGTH, POINTS), torch.zeros(LENGTH + 1, POINTS)
        state = torch.Tensor(game.reset())
        for t in range(LENGTH):
            with torch.no_grad():
                policy = agent.policy(state)
                action = policy.sample()
                seen[t], actions[t], logprobs[t] = state, action, policy.log_prob(action)
                values[t] = agent.critic(state).flatten()
            observation, reward = game.step(action.cpu().numpy())
            state, rewards[t] = torch.Tensor(observation), torch.tensor(reward).view(-1)
        advantages, last = torch.zeros_like(rewards), torch.zeros(rewards.shape[1:])
        for t in reversed(range(LENGTH)):
            delta = rewards[t] + GAMMA * values[t + 1] * (t < LENGTH - 1) - values[t]
            advantages[t] = last = delta + GAMMA * LAMBDA * last
        returns = (advantages + values[:-1]).reshape(-1)
        b_seen, b_actions = seen.reshape(-1, 4), actions.reshape(-1, 2)
        b_logprobs, b_advantages = logprobs.sum(-1).reshape(-1), advantages.reshape(-1)
        for _ in range(4):
            for chosen in torch.randperm(LENGTH * POINTS).split(320):
                policy = agent.policy(b_seen[chosen])
                ratio = (policy.log_prob(b_actions[chosen]).sum(1) - b_logprobs[chosen]).exp()
                a = b_advantages[chosen]
                a = (a - a.mean()) / (a.std() + 1e-8)
                pg_loss = torch.max(-a * ratio, -a * torch.clamp(ratio, 1 - CLIP, 1 + CLIP)).mean()
                v_loss = 0.5 * ((agent.critic(b_seen[chosen]).view(-1) - returns[chosen]) ** 2).mean()
                loss = pg_loss + 0.5 * v_loss - 0.001 * policy.entropy().sum(1).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        if update % 10 == 9:
            print(f"update {update + 1:3d}  distance at last {-rewards[-1].mean().item():.3f}")
    state = torch.Tensor(game.reset())
    for _ in range(LENGTH):
        with torch.no_grad():
            observation, reward = game.step(agent.actor(state).numpy())
        state = torch.Tensor(observation)
    return "distance to the goal at last", float(-reward.mean())


if __name__ == "__main__":
    run(main)
