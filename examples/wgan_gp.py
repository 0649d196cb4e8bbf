"""A Wasserstein GAN with gradient penalty (second derivatives) finds all 8 clusters on a ring in ten seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: Gulrajani et al. 2017,
arXiv:1704.00028.
"""

import numpy as np

import retrograd as torch
from data import run

nn, autograd = torch.nn, torch.autograd
ANGLES = np.arange(8) * np.pi / 4
CENTERS = 2 * np.stack((np.cos(ANGLES), np.sin(ANGLES)), 1)


def network(inputs, outputs):
    return nn.Sequential(
        nn.Linear(inputs, 128), nn.ReLU(True), nn.Linear(128, 128), nn.ReLU(True), nn.Linear(128, outputs)
    )


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1).expand_as(real)
    between = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    (gradients,) = autograd.grad(outputs=critic(between).sum(), inputs=between, create_graph=True, retain_graph=True)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def main(steps=1500, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    random = np.random.default_rng(0)
    generator, critic = network(2, 2), network(2, 1)
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.5, 0.9))
    optimizer_c = torch.optim.Adam(critic.parameters(), lr=5e-4, betas=(0.5, 0.9))
    if compiled:
        generator = torch.compile(generator)
    for step in range(steps):
        for _ in range(3):
            points = CENTERS[random.integers(0, 8, 256)] + random.normal(0, 0.1, (256, 2))
            real = torch.from_numpy(points.astype(np.float32))
            fake = generator(torch.randn(256, 2)).detach()
            critic.zero_grad()
            loss = critic(fake).mean() - critic(real).mean() + gradient_penalty(critic, real, fake)
            loss.backward()
            optimizer_c.step()
        optimizer_g.zero_grad()
        loss_g = -critic(generator(torch.randn(256, 2))).mean()
        loss_g.backward()
        optimizer_g.step()
        if step % 250 == 0:
            print(f"step {step:4d}  critic {loss.item():.3f}  generator {loss_g.item():.3f}")
    with torch.no_grad():
        made = generator(torch.randn(2000, 2)).numpy()
    distance = np.linalg.norm(made[:, None] - CENTERS, axis=2)
    found = np.bincount(distance.argmin(1)[distance.min(1) < 0.4], minlength=8) > 40
    print(f"within 0.4 of a cluster: {(distance.min(1) < 0.4).mean():.3f}")
    return "clusters found", float(found.sum())


if __name__ == "__main__":
    run(main)
