"""Two GRUs with attention between them learn to reverse sequences: 90 % of the sequences in five seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: Bahdanau et al. 2014, arXiv:1409.0473.
"""

import retrograd as torch
from data import batches, reversals, run

nn, F = torch.nn, torch.nn.functional


class Encoder(nn.Module):
    def __init__(self, symbols, hidden):
        super().__init__()
        self.embedding = nn.Embedding(symbols, 32)
        self.gru = nn.GRU(32, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, hidden)

    def forward(self, source):
        outputs, hidden = self.gru(self.embedding(source))
        return outputs, torch.tanh(self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)))


class Attention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.attn = nn.Linear(3 * hidden, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, hidden, outputs):
        repeated = hidden.unsqueeze(1).repeat(1, outputs.shape[1], 1)
        energy = torch.tanh(self.attn(torch.cat((repeated, outputs), dim=2)))
        return F.softmax(self.v(energy).squeeze(2), dim=1)


class Decoder(nn.Module):
    def __init__(self, symbols, hidden):
        super().__init__()
        self.embedding = nn.Embedding(symbols, 32)
        self.attention = Attention(hidden)
        self.cell = nn.GRUCell(32 + 2 * hidden, hidden)
        self.out = nn.Linear(3 * hidden, symbols)

    def forward(self, symbol, hidden, outputs):
        weights = self.attention(hidden, outputs)
        context = torch.bmm(weights.unsqueeze(1), outputs).squeeze(1)
        hidden = self.cell(torch.cat((self.embedding(symbol), context), dim=1), hidden)
        return self.out(torch.cat((hidden, context), dim=1)), hidden


def decode(encoder, decoder, source, target=None):
    """Return logits (N, length, symbols); inputs are the true symbols if given, otherwise the most probable ones."""
    outputs, hidden = encoder(source)
    symbol, logits = torch.zeros(source.size(0), dtype=torch.long), []
    for place in range(source.size(1)):
        scores, hidden = decoder(symbol, hidden, outputs)
        logits.append(scores)
        symbol = scores.argmax(1) if target is None else target[:, place]
    return torch.stack(logits, dim=1)


def main(epochs=6, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    source, target = map(torch.from_numpy, reversals(5000))
    encoder, decoder = Encoder(11, 64), Decoder(11, 64)
    parameters = list(encoder.parameters()) + list(decoder.parameters())
    optimizer = torch.optim.Adam(parameters, lr=5e-3)

    def answer(source, target=None):
        return decode(encoder, decoder, source, target)

    if compiled:
        answer = torch.compile(answer)
    for step, batch in enumerate(batches(4000, 64, epochs)):
        chosen = torch.from_numpy(batch)
        logits = answer(source[chosen], target[chosen])
        loss = F.cross_entropy(logits.view(-1, 11), target[chosen].view(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, max_norm=1.0)
        optimizer.step()
        if step % 62 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}")
    with torch.no_grad():
        guessed = answer(source[4000:]).argmax(2)
        return "share of sequences", (guessed == target[4000:]).all(1).float().mean().item()


if __name__ == "__main__":
    run(main)
