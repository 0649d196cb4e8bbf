"""A convolutional autoencoder packs digits of 64 pixels into 8 numbers: a mean squared error of 0.02 in two seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd.
"""

import retrograd as torch
from data import digits, run

nn = torch.nn
DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1),
            nn.ReLU(True),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(True),
            nn.Flatten(),
            nn.Linear(128, 8),
        )
        self.decoder = nn.Sequential(
            nn.Linear(8, 128),
            nn.ReLU(True),
            nn.Unflatten(1, (32, 2, 2)),
            nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
            nn.ReLU(True),
            nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


def main(epochs=30, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    x, y, x_test, _ = map(torch.from_numpy, digits())
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True)
    model, criterion = Autoencoder(), nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def learn(images):
        loss = criterion(model(images), images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        learn = torch.compile(learn)
    for epoch in range(epochs):
        for images, _ in loader:
            loss = learn(images)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:2d}  loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        return "mean squared error", criterion(model(x_test), x_test).item()


if __name__ == "__main__":
    run(main)
