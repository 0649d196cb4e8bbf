"""A U-Net finds a disc and a square in noise: an intersection over union of 0.75 in five seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: Ronneberger et al. 2015,
arXiv:1505.04597.
"""

import retrograd as torch
from data import batches, run, shapes

nn, F = torch.nn, torch.nn.functional


class DoubleConv(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(channels, out, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
            nn.Conv2d(out, out, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, out, kernel_size=2, stride=2)
        self.conv = DoubleConv(2 * out, out)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], dim=1))


class UNet(nn.Module):
    def __init__(self, classes=3, width=8):
        super().__init__()
        self.inc = DoubleConv(1, width)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(width, 2 * width))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(2 * width, 4 * width))
        self.up1, self.up2 = Up(4 * width, 2 * width), Up(2 * width, width)
        self.outc = nn.Conv2d(width, classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        return self.outc(self.up2(self.up1(x3, x2), x1))


def dice_loss(probabilities, target):
    both = (probabilities * target).sum(dim=(0, 2, 3))
    return 1 - (2 * both / (probabilities + target).sum(dim=(0, 2, 3))).mean()


def main(epochs=10, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    images, masks = map(torch.from_numpy, shapes(800))
    model, criterion = UNet(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    if compiled:
        model = torch.compile(model)
    for step, batch in enumerate(batches(640, 16, epochs)):
        x, true = images[batch], masks[batch]
        logits = model(x)
        one_hot = F.one_hot(true, 3).permute(0, 3, 1, 2).float()
        loss = criterion(logits, true) + dice_loss(F.softmax(logits, dim=1).float(), one_hot)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(x).argmax(dim=1) for x in torch.split(images[640:], 40)])
    shares = [
        ((found == kind) & (masks[640:] == kind)).sum().item() / ((found == kind) | (masks[640:] == kind)).sum().item()
        for kind in (1, 2)
    ]
    return "intersection over union", sum(shares) / 2


if __name__ == "__main__":
    run(main)
