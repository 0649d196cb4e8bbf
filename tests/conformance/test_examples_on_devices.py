"""Training steps of the networks of ``examples/`` on a foreign array type, compared with the CPU."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.kernel_set import add_device, remove_device
from retrograd.nn import functional
from strict_array import Strict

FOLDER = Path(__file__).parents[2] / "examples"
Losses = Callable[[], list[rg.Tensor]]
Prepared = tuple[list[nn.Module], Losses]  # networks, and what computes a loss for each

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    others = {
        name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "data"
    }  # tests/data
    yield importlib.import_module(request.param)
    for name in ("data", request.param):
        sys.modules.pop(name, None)
    sys.modules.update(others)


def images(place: str, count: int = 4, size: int = 8) -> rg.Tensor:
    return rg.rand(count, 1, size, size, device=place)


def digits(place: str, count: int = 4) -> rg.Tensor:
    return rg.arange(count, device=place)


def autoencoder(module: Any, place: str) -> Prepared:
    model, x = module.Autoencoder().to(place), images(place)
    return [model], lambda: [nn.MSELoss()(model(x), x)]


def char_gpt(module: Any, place: str) -> Prepared:
    model, codes = module.GPT(20).to(place), rg.randint(0, 20, (2, 17), device=place)
    return [model], lambda: [model(codes[:, :-1].contiguous(), codes[:, 1:].contiguous())]


def char_lstm(module: Any, place: str) -> Prepared:
    model, codes = module.CharRNN(20, 16).to(place), rg.randint(0, 20, (2, 9), device=place)

    def losses() -> list[rg.Tensor]:
        _, state = model(codes[:, :4])
        logits, _ = model(codes[:, 4:8], tuple(s.detach() for s in state))
        return [functional.cross_entropy(logits.reshape(-1, 20), codes[:, 5:].reshape(-1))]

    return [model], losses


def classifier(model: nn.Module, x: rg.Tensor, criterion: Any = functional.cross_entropy) -> Prepared:
    return [model], lambda: [criterion(model(x), digits(str(x.device), len(x)))]


def digits_cnn(module: Any, place: str) -> Prepared:
    return classifier(module.Net().to(place), images(place))


def gru_classifier(module: Any, place: str) -> Prepared:
    return classifier(module.RNN().to(place), images(place)[:, 0])


def resnet_mnist5k(module: Any, place: str) -> Prepared:
    return classifier(module.ResNet(8).to(place), images(place, size=14), nn.CrossEntropyLoss(label_smoothing=0.05))


def spirals_mlp(module: Any, place: str) -> Prepared:
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
    return classifier(model.to(place), rg.randn(3, 2, device=place))


def linear_regression(module: Any, place: str) -> Prepared:
    model, x, y = nn.Linear(20, 1, device=place), rg.randn(50, 20, device=place), rg.randn(50, 1, device=place)
    return [model], lambda: [nn.MSELoss()(model(x), y)]


def gan(module: Any, place: str) -> Prepared:
    generator, discriminator = module.Generator().to(place), module.Discriminator().to(place)
    generator.apply(module.weights_init)
    discriminator.apply(module.weights_init)
    criterion, ones, zeros = nn.BCEWithLogitsLoss(), rg.ones(4, device=place), rg.zeros(4, device=place)

    def losses() -> list[rg.Tensor]:
        made = generator(rg.randn(4, 16, 1, 1, device=place))
        loss = criterion(discriminator(images(place)), ones * 0.9)
        loss += criterion(discriminator(made.detach()), zeros)
        return [loss, criterion(discriminator(made), ones)]

    return [discriminator, generator], losses


def wgan_gp(module: Any, place: str) -> Prepared:
    generator, critic = module.network(2, 2).to(place), module.network(2, 1).to(place)
    real = rg.randn(16, 2, device=place)

    def losses() -> list[rg.Tensor]:
        fake = generator(rg.randn(16, 2, device=place))
        between = (0.3 * real + 0.7 * fake.detach()).requires_grad_(True)
        (gradients,) = rg.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean()
        return [critic(fake.detach()).mean() - critic(real).mean() + penalty, -critic(fake).mean()]

    return [critic, generator], losses


def gcn(module: Any, place: str) -> Prepared:
    model = module.GCN(nfeat=6, nhid=16, nclass=4, dropout=0.5).to(place)
    edges = np.array([[0, 1, 2, 3, 0, 2], [1, 2, 3, 4, 3, 0]])
    adjacency = module.normalized(edges, 5).to(place)
    features, train = rg.rand(5, 6, device=place), rg.arange(3, device=place)
    return [model], lambda: [functional.nll_loss(model(features, adjacency)[train], train)]


def seq2seq(module: Any, place: str) -> Prepared:
    encoder, decoder = module.Encoder(11, 16).to(place), module.Decoder(11, 16).to(place)
    source = rg.randint(0, 11, (3, 5), device=place)

    def losses() -> list[rg.Tensor]:
        outputs, hidden = encoder(source)
        symbol, logits = rg.zeros(3, dtype=rg.long, device=place), []
        for at in range(5):
            scores, hidden = decoder(symbol, hidden, outputs)
            logits.append(scores)
            symbol = source[:, at]
        loss = functional.cross_entropy(rg.stack(logits, dim=1).view(-1, 11), source.view(-1))
        return [loss, loss]

    return [encoder, decoder], losses


def siamese(module: Any, place: str) -> Prepared:
    model, criterion = module.EmbeddingNet().to(place), module.ContrastiveLoss(1.0)
    target = rg.tensor([0, 1, 1, 0], device=place)
    left, right = images(place), images(place)
    return [model], lambda: [criterion(model(left), model(right), target)]


def sunspots_lstm(module: Any, place: str) -> Prepared:
    model, x, y = module.Forecast(8).to(place), rg.rand(3, 12, 1, device=place), rg.rand(3, 1, device=place)
    return [model], lambda: [nn.SmoothL1Loss()(model(x), y)]


def unet_shapes(module: Any, place: str) -> Prepared:
    model, x, true = module.UNet(width=4).to(place), images(place), rg.randint(0, 3, (4, 8, 8), device=place)

    def losses() -> list[rg.Tensor]:
        logits = model(x)
        one_hot = functional.one_hot(true, 3).permute(0, 3, 1, 2).float()
        return [nn.CrossEntropyLoss()(logits, true) + module.dice_loss(functional.softmax(logits, dim=1), one_hot)]

    return [model], losses


def vae(module: Any, place: str) -> Prepared:
    model, x = module.VAE().to(place), images(place)
    return [model], lambda: [module.negative_bound(*_with(model(x), x))]


def _with(outputs: tuple[rg.Tensor, ...], x: rg.Tensor) -> tuple[rg.Tensor, ...]:
    return (outputs[0], x, *outputs[1:])


def actor_critic_cartpole(module: Any, place: str) -> Prepared:
    model, states = module.Policy().to(place), rg.randn(6, 4, device=place)

    def losses() -> list[rg.Tensor]:
        probs, value = model(states)
        policy = module.Categorical(probs)
        returns = rg.rand(6, device=place)
        loss = -(policy.log_prob(policy.sample()) * (returns - value[:, 0].detach())).sum()
        return [loss + functional.smooth_l1_loss(value[:, 0], returns)]

    return [model], losses


def dqn_cartpole(module: Any, place: str) -> Prepared:
    q, target = module.QNet().to(place), module.QNet().to(place)
    target.load_state_dict(q.state_dict())
    states, actions = rg.randn(6, 4, device=place), rg.randint(0, 2, (6, 1), device=place)

    def losses() -> list[rg.Tensor]:
        with rg.no_grad():
            best = q(states).argmax(1, keepdim=True)
            wanted = 0.1 + 0.98 * target(states).gather(1, best)
        return [functional.smooth_l1_loss(q(states).gather(1, actions), wanted)]

    return [q], losses


def ppo_reach(module: Any, place: str) -> Prepared:
    agent, states = module.Agent().to(place), rg.randn(6, 4, device=place)

    def losses() -> list[rg.Tensor]:
        policy = agent.policy(states)
        ratio = policy.log_prob(policy.sample()).sum(1).exp()
        a = rg.randn(6, device=place)
        a = (a - a.mean()) / (a.std() + 1e-8)
        loss = rg.max(-a * ratio, -a * rg.clamp(ratio, 0.8, 1.2)).mean() + 0.5 * (agent.critic(states) ** 2).mean()
        return [loss - 0.001 * policy.entropy().sum(1).mean()]

    return [agent], losses


PREPARE = [
    autoencoder,
    char_gpt,
    char_lstm,
    digits_cnn,
    gru_classifier,
    resnet_mnist5k,
    spirals_mlp,
    linear_regression,
    gan,
    wgan_gp,
    gcn,
    seq2seq,
    siamese,
    sunspots_lstm,
    unet_shapes,
    vae,
    actor_critic_cartpole,
    dqn_cartpole,
    ppo_reach,
]


@pytest.mark.parametrize(("example", "prepare"), [(f.__name__, f) for f in PREPARE], indirect=["example"])
def test_training_steps(example: ModuleType, prepare: Callable[[Any, str], Prepared]) -> None:
    """Two steps of Adam: the same losses, and everything stays on the device."""
    losses: dict[str, list[float]] = {"cpu": [], "strict": []}
    add_device("strict", Strict, Strict)
    try:
        for place, found in losses.items():
            rg.manual_seed(1)
            models, compute = prepare(example, place)
            steppers = [rg.optim.Adam(model.parameters(), lr=1e-3) for model in models]
            for _ in range(2):
                for stepper in steppers:
                    stepper.zero_grad()
                for loss in {id(loss): loss for loss in compute()}.values():
                    loss.backward()
                    found.append(loss.item())
                for model, stepper in zip(models, steppers, strict=True):
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    stepper.step()
            owned = [x for model in models for x in (*model.parameters(), *model.buffers())]
            owned += [p.grad for model in models for p in model.parameters() if p.grad is not None]
            assert owned and all(str(x.device) == place for x in owned)
    finally:
        remove_device("strict")
    np.testing.assert_allclose(losses["strict"], losses["cpu"], 1e-4)
    assert len(set(losses["cpu"])) > 1


def test_every_example_is_here() -> None:
    """LeNet is in test_strict_arrays.py; the sweeps and the helpers make no network of their own."""
    others = {"data", "compare", "trial", "sweep_optuna", "sweep_ray", "lenet_mnist5k"}
    assert {f.__name__ for f in PREPARE} == {path.stem for path in FOLDER.glob("*.py")} - others
