"""A convolutional GAN draws digits: a Fréchet distance of 1.5 (of pixels) to the real ones in ten seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: Radford et al. 2015, arXiv:1511.06434.
"""

import retrograd as torch
from data import batches, digits, frechet, run

nn = torch.nn


def weights_init(m):
    name = m.__class__.__name__
    if name.find("Conv") != -1:
        m.weight.data.normal_(0.0, 0.05)
    elif name.find("BatchNorm") != -1:
        m.weight.data.normal_(1.0, 0.02)
        m.bias.data.fill_(0)


class Generator(nn.Module):
    def __init__(self, z=16):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(z, 64, 2, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(True),
            nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(True),
            nn.ConvTranspose2d(32, 1, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, 32, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(32, 64, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Dropout(0.3),
            nn.Conv2d(64, 1, 2),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def main(epochs=80, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    x, _, x_test, _ = digits()
    images = torch.from_numpy(x)
    generator, discriminator = Generator(), Discriminator()
    generator.apply(weights_init)
    discriminator.apply(weights_init)
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    real, fake = torch.ones(64), torch.zeros(64)
    if compiled:
        generator, discriminator = map(torch.compile, (generator, discriminator))
    for step, batch in enumerate(batches(len(x), 64, epochs)):
        made = generator(torch.randn(64, 16, 1, 1))
        optimizer_d.zero_grad()
        loss_d = criterion(discriminator(images[torch.from_numpy(batch)]), real * 0.9)
        loss_d += criterion(discriminator(made.detach()), fake)
        loss_d.backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        loss_g = criterion(discriminator(made), real)
        loss_g.backward()
        optimizer_g.step()
        if step % 110 == 0:
            print(f"step {step:4d}  discriminator {loss_d.item():.3f}  generator {loss_g.item():.3f}")
    generator.eval()
    with torch.no_grad():
        drawn = generator(torch.randn(1000, 16, 1, 1)).cpu().numpy()
    return "Fréchet distance", frechet(drawn.reshape(1000, 64), x_test.reshape(-1, 64))


if __name__ == "__main__":
    run(main)
