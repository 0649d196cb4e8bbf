"""A small GPT learns Python's help texts character by character: 3 bits per character in ten seconds.

With PyTorch: write ``import torch`` in place of the import of retrograd. Source: Radford et al. 2018; in the manner of
Karpathy's nanoGPT.
"""

import math

import numpy as np

import retrograd as torch
from data import run, text

nn, F = torch.nn, torch.nn.functional
CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("bias", torch.tril(torch.ones(CONTEXT, CONTEXT)).view(1, 1, CONTEXT, CONTEXT))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (a.view(B, T, HEADS, C // HEADS).transpose(1, 2) for a in self.c_attn(x).split(C, dim=2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(WIDTH), CausalSelfAttention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters, bias=False)
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, codes, targets):
        x = self.wte(codes) + self.wpe(torch.arange(codes.size(1), device=codes.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


def main(steps=400, threads=2, compiled=False):
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    codes, characters = text()
    windows = np.lib.stride_tricks.sliding_window_view(codes, CONTEXT + 1)
    random = np.random.default_rng(0)

    def batch(low, high, count=32):
        chosen = torch.from_numpy(windows[random.integers(low, high, count)])
        return chosen[:, :-1].contiguous(), chosen[:, 1:].contiguous()

    last = len(windows) - 20_000
    model = GPT(characters)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
    forward = model
    if compiled:
        forward = torch.compile(model)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1, (step + 1) / 50, max(0.1, (steps - step) / steps * 1.5))
        loss = forward(*batch(0, last))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step:4d}  bits per character {loss.item() / math.log(2):.3f}")
    model.eval()
    with torch.no_grad():
        loss = model(*batch(last + CONTEXT, len(windows), 256))
    return "bits per character", loss.item() / math.log(2)


if __name__ == "__main__":
    run(main)
