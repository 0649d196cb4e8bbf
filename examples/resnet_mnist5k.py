"""A small residual network on 4,000 digits of MNIST: 95 % in ten seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: He et al. 2015, arXiv:1512.03385.
"""

import retrograd as torch
from data import batches, mnist5k, run

nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.shortcut(x)
        return F.relu(y)


class ResNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True))
        self.layers = nn.Sequential(Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2))
        self.fc = nn.Linear(4 * width, 10)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1)
        return self.fc(x.view(x.size(0), -1))


def main(epochs=4, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    x, y, x_test, y_test = map(torch.from_numpy, mnist5k())
    model = ResNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * (len(x) // 64))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    def learn(images, labels):
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        learn = torch.compile(learn)
    for step, batch in enumerate(batches(len(x), 64, epochs)):
        loss = learn(x[batch], y[batch])
        scheduler.step()
        if step % 31 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        pairs = zip(x_test.split(250), y_test.split(250), strict=True)
        correct = sum((model(images).argmax(1) == labels).sum().item() for images, labels in pairs)
    return "accuracy", correct / len(y_test)


if __name__ == "__main__":
    run(main)
