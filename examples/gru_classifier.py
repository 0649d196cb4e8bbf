"""A GRU reads digits row by row: 95 % in a second.

With PyTorch: write ``import torch`` in place of the import of retrograd.
"""

import retrograd as torch
from data import digits, run

nn, F = torch.nn, torch.nn.functional
DataLoader = torch.utils.data.DataLoader


class Rows(torch.utils.data.Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return torch.from_numpy(self.images[index, 0]), int(self.labels[index])


class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(input_size=8, hidden_size=64, num_layers=2, batch_first=True, dropout=0.1)
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        out, _ = self.gru(x)
        return self.fc(out[:, -1, :])


def main(epochs=15, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    x, y, x_test, y_test = digits()
    train = DataLoader(dataset=Rows(x, y), batch_size=64, shuffle=True)
    test = DataLoader(dataset=Rows(x_test, y_test), batch_size=128, shuffle=False)
    model = RNN()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)

    def learn(rows, labels):
        loss = F.cross_entropy(model(rows), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        learn = torch.compile(learn)
    for epoch in range(epochs):
        model.train()
        for rows, labels in train:
            loss = learn(rows, labels)
        print(f"epoch {epoch + 1:2d}  loss {loss.item():.4f}")
    model.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for rows, labels in test:
            _, predicted = torch.max(model(rows).data, 1)
            total += labels.size(0)
            correct += (predicted == labels).sum().item()
    return "accuracy", correct / total


if __name__ == "__main__":
    run(main)
