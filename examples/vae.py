"""A variational autoencoder of digits: an evidence lower bound of -25 nats in two seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: Kingma and Welling 2013,
arXiv:1312.6114.
"""

import retrograd as torch
from data import batches, digits, run

nn, F = torch.nn, torch.nn.functional


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 200)
        self.fc21 = nn.Linear(200, 10)
        self.fc22 = nn.Linear(200, 10)
        self.fc3 = nn.Linear(10, 200)
        self.fc4 = nn.Linear(200, 64)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def negative_bound(reconstructed, x, mu, logvar):
    bce = F.binary_cross_entropy(reconstructed, x.view(-1, 64), reduction="sum")
    divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (bce + divergence) / len(x)


def main(epochs=60, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    x, _, x_test, _ = map(torch.from_numpy, digits())
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    if compiled:
        model.encode, model.decode = map(torch.compile, (model.encode, model.decode))  # type: ignore[method-assign]
    for step, batch in enumerate(batches(len(x), 64, epochs)):
        images = x[torch.from_numpy(batch)]
        reconstructed, mu, logvar = model(images)
        loss = negative_bound(reconstructed, images, mu, logvar)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 220 == 0:
            print(f"step {step:4d}  bound {-loss.item():.2f}")
    with torch.no_grad():
        reconstructed, mu, logvar = model(x_test)
        return "evidence lower bound", -negative_bound(reconstructed, x_test, mu, logvar).item()


if __name__ == "__main__":
    run(main)
