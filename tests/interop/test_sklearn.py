"""Networks as scikit-learn estimators; scikit-learn's own checks are in test_sklearn_checks.py."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import retrograd as rg
from retrograd import nn
from retrograd.data import Digits
from retrograd.interop.sklearn import RetrogradClassifier, RetrogradRegressor, perceptron
from retrograd.train import Callback, CosineSchedule, EarlyStopping, TrainingError, fit

EXACT: dict[str, Any] = {"dtype": "float64", "batch_size": 1000, "optimizer": "SGD", "lr": 0.1, "random_state": 0}


def blobs(count: int = 60, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(count) % classes
    return (rng.normal(size=(count, 4)) + 3 * np.eye(classes, 4)[y]).astype(np.float32), y


def line(count: int = 40, outputs: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 3))
    shape = (3,) if outputs is None else (3, outputs)
    y = x @ rng.normal(size=shape) + 0.5 * rng.normal(size=(count, *shape[1:])) + 2
    return x, y


def weights_of(estimator: Any) -> list[bytes]:
    return [parameter.array.tobytes() for parameter in estimator.module_.parameters()]


class Net(nn.Module):
    def __init__(self, n_features, n_outputs, hidden=8, dropout=0.0):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_features, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, n_outputs)
        )

    def forward(self, x):
        return self.layers(x)


class LastStep(nn.Module):
    def __init__(self, input_shape, n_classes):
        super().__init__()
        self.lstm, self.last = nn.LSTM(input_shape[1], 8, batch_first=True), nn.Linear(8, n_classes)

    def forward(self, x):
        return self.last(self.lstm(x)[0][:, -1])


# ---------------------------------------------------------------- what is learned


@pytest.mark.parametrize("outputs", [None, 1, 2])
def test_a_linear_regressor_finds_the_least_squares(outputs: int | None) -> None:
    x, y = line(outputs=outputs)
    model = RetrogradRegressor(nn.Linear, epochs=900, **EXACT).fit(x, y)
    best = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)[0]
    expected = np.c_[x, np.ones(len(x))] @ best
    np.testing.assert_allclose(model.predict(x), expected, rtol=1e-9)
    assert model.predict(x).shape == y.shape and model.n_outputs_ == (outputs or 1)
    assert model.loss_ == pytest.approx(((expected - y) ** 2).mean())


def test_weights_of_samples_are_those_of_weighted_least_squares() -> None:
    x, y = line()
    weight = np.random.default_rng(1).uniform(0, 5, len(x))
    weight[:5] = 0
    root = np.sqrt(weight)
    best = np.linalg.lstsq(np.c_[x, np.ones(len(x))] * root[:, None], y * root, rcond=None)[0]
    for scale in (1, 1e6):  # only their ratios count
        model = RetrogradRegressor(nn.Linear, epochs=400, **EXACT).fit(x, y, sample_weight=weight * scale)
        np.testing.assert_allclose(model.predict(x), np.c_[x, np.ones(len(x))] @ best, rtol=1e-8)


@pytest.mark.parametrize("loss", [nn.L1Loss, nn.L1Loss(), nn.functional.l1_loss, "l1loss"])
def test_a_loss_of_any_kind_takes_weights(loss: Any) -> None:
    x, y = line()
    for weight in (None, np.arange(len(x))):
        model = RetrogradRegressor(nn.Linear, loss=loss, epochs=1, **EXACT)
        start = RetrogradRegressor(nn.Linear, loss=loss, epochs=1, **{**EXACT, "lr": 0.0}).fit(x, y)
        expected = np.average(abs(start.predict(x) - y), weights=weight)
        assert model.fit(x, y, sample_weight=weight).loss_ == pytest.approx(expected, rel=1e-12)


def test_a_bare_program_learns_the_same_bits() -> None:
    x, y = blobs(70)
    model = RetrogradClassifier(Net, module__dropout=0.2, epochs=3, lr=0.01, random_state=5).fit(x, y)
    rg.manual_seed(5)
    net = Net(4, 3, dropout=0.2)
    history = fit(net, (x, y), epochs=3, optimizer=rg.optim.Adam(net.parameters(), lr=0.01), progress=False)
    assert weights_of(model) == [parameter.array.tobytes() for parameter in net.parameters()]
    assert model.loss_curve_ == history.column("loss") and model.n_iter_ == 3


def test_probabilities_are_softmax_of_the_scores() -> None:
    x, y = blobs()
    model = RetrogradClassifier(epochs=3, random_state=0).fit(x, y)
    scores = model.module_(rg.tensor(x)).detach().numpy().astype(np.float64)
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(x), expected, rtol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(x), np.log(expected), rtol=1e-9, atol=1e-12)
    assert (model.predict(x) == expected.argmax(1)).all()


def test_labels_may_be_text() -> None:
    x, y = blobs()
    names = np.array(["cat", "ant", "bee"])[y]
    model = RetrogradClassifier(epochs=30, lr=0.01, random_state=0).fit(x, names)
    assert list(model.classes_) == ["ant", "bee", "cat"] and model.score(x, names) > 0.9


def test_images_sequences_and_indices() -> None:
    images, labels = (tensor.array[:200] for tensor in Digits().tensors)
    conv = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    model = RetrogradClassifier(conv, epochs=8, lr=0.01, random_state=0).fit(images, labels)
    assert model.score(images, labels) > 0.9 and model.n_features_in_ == 1
    rows = RetrogradClassifier(LastStep, epochs=15, lr=0.02, random_state=0).fit(images[:, 0], labels)
    assert rows.score(images[:, 0], labels) > 0.6
    words = np.random.default_rng(0).integers(0, 6, (80, 1))
    embedding = nn.Sequential(nn.Embedding(6, 4), nn.Flatten(), nn.Linear(4, 2))
    pick = RetrogradClassifier(embedding, dtype="int64", epochs=60, lr=0.05, random_state=0).fit(words, words[:, 0] % 2)
    assert pick.score(words, words[:, 0] % 2) == 1


def test_a_network_may_return_one_axis_for_one_number() -> None:
    x, y = line()
    flat = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))
    expected = RetrogradRegressor(nn.Linear, epochs=900, **EXACT).fit(x, y).predict(x)
    np.testing.assert_allclose(RetrogradRegressor(flat, epochs=900, **EXACT).fit(x, y).predict(x), expected, rtol=1e-9)


@pytest.mark.parametrize(("count", "size", "steps"), [(33, 32, 1), (65, 32, 2), (66, 32, 3), (32, 32, 1), (9, 1, 9)])
def test_a_last_batch_of_one_sample_joins_the_one_before(count: int, size: int, steps: int) -> None:
    x, y = blobs(count)
    net = nn.Sequential(nn.Linear(4, 3), *([nn.BatchNorm1d(3)] if size > 1 else []))
    model = RetrogradClassifier(net, epochs=2, batch_size=size, callbacks=[Sizes()]).fit(x, y)
    assert model.history_[0]["step"] == steps
    only = RetrogradClassifier(epochs=1).fit(x[:1], y[:1])
    assert only.predict(x).tolist() == [0] * count


class Sizes(Callback):
    """A callback that checks that the loader has as many batches as its length says."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_step_end(self, fit: Any, samples: int) -> None:
        self.seen.append(samples)

    def on_epoch_end(self, fit: Any, record: Any) -> None:
        assert len(self.seen) == len(fit.loader) and sum(self.seen) == len(fit.loader.dataset)
        self.seen = []


# ---------------------------------------------------------------- random numbers


def test_random_state_alone_decides() -> None:
    x, y = blobs()
    settings: dict[str, Any] = {"module": Net, "module__dropout": 0.3, "epochs": 2}
    before = rg.get_rng_state()
    one = RetrogradClassifier(**settings, random_state=1).fit(x, y)
    assert rg.get_rng_state() == before
    threads = rg.get_num_threads()
    rg.rand(3)
    rg.set_num_threads(2 if threads == 1 else 1)
    try:
        assert weights_of(RetrogradClassifier(**settings, random_state=1).fit(x, y)) == weights_of(one)
    finally:
        rg.set_num_threads(threads)
    assert weights_of(RetrogradClassifier(**settings, random_state=2).fit(x, y)) != weights_of(one)
    state = np.random.RandomState(0)
    first, second = (RetrogradClassifier(**settings, random_state=state).fit(x, y) for _ in range(2))
    assert weights_of(first) != weights_of(second)
    again = RetrogradClassifier(**settings, random_state=np.random.RandomState(0)).fit(x, y)
    assert weights_of(again) == weights_of(first)


def test_a_network_that_is_made_starts_from_its_weights_at_each_fit() -> None:
    x, y = blobs()
    net = Net(4, 3)
    start = [parameter.array.tobytes() for parameter in net.parameters()]
    model = RetrogradClassifier(net, epochs=2, random_state=0).fit(x, y)
    once = weights_of(model)
    assert [parameter.array.tobytes() for parameter in net.parameters()] == start != once
    assert weights_of(model.fit(x, y)) == once == weights_of(clone(model).fit(x, y))


def test_fits_in_threads_draw_their_own_numbers() -> None:
    x, y = blobs()
    models = [RetrogradClassifier(Net, module__dropout=0.3, epochs=3, random_state=seed) for seed in range(4)]
    alone = [weights_of(clone(model).fit(x, y)) for model in models]
    together = joblib.Parallel(4, "threading")(joblib.delayed(model.fit)(x, y) for model in models)
    assert [weights_of(model) for model in together] == alone


# ---------------------------------------------------------------- training further


def test_partial_fit_is_an_epoch_of_fit() -> None:
    x, y = blobs()
    settings: dict[str, Any] = {"module": Net, "module__dropout": 0.3, "random_state": 0}
    whole = RetrogradClassifier(**settings, epochs=3).fit(x, y)
    parts = RetrogradClassifier(**settings, epochs=9)
    for _ in range(3):
        parts.partial_fit(x, y, classes=[0, 1, 2])
        parts = pickle.loads(pickle.dumps(parts))
    warm = RetrogradClassifier(**settings, epochs=1, warm_start=True).fit(x, y).set_params(epochs=2).fit(x, y)
    assert weights_of(parts) == weights_of(whole) == weights_of(warm)
    assert [r["step"] for r in parts.history_] == [r["step"] for r in whole.history_] and parts.n_iter_ == 3
    again = RetrogradClassifier(**settings, epochs=3).fit(x, y).fit(x, y)
    assert weights_of(again) == weights_of(whole) and again.n_iter_ == 3


def test_partial_fit_of_a_regressor() -> None:
    x, y = line(outputs=2)
    model = RetrogradRegressor(random_state=0)
    assert model.partial_fit(x, y).partial_fit(x, y, sample_weight=np.ones(40)).predict(x).shape == y.shape
    with pytest.raises(ValueError, match=r"y has shape \(40,\), but in the first fit it was \('N', 2\)"):
        model.partial_fit(x, y[:, 0])


def test_early_stopping_keeps_the_best_weights() -> None:
    x, y = blobs(100, 2)
    noise = np.random.default_rng(1).integers(0, 2, 100)
    model = RetrogradClassifier(
        epochs=300, lr=0.03, early_stopping=True, n_iter_no_change=3, validation_fraction=0.25, random_state=0
    ).fit(x, np.where(np.arange(100) % 3, y, noise))
    losses = model.history_.column("held_out_loss")
    assert model.n_iter_ < 300 and len(losses) - 1 - int(np.argmin(losses)) <= 4
    regressor = RetrogradRegressor(early_stopping=True, epochs=2, random_state=0)
    assert "held_out_loss" in regressor.fit(*line(), sample_weight=np.ones(40)).history_[0]


def test_callbacks_are_new_for_each_fit() -> None:
    x, y = blobs()
    stop = EarlyStopping("loss", patience=1, min_delta=100)
    model = RetrogradClassifier(epochs=9, callbacks=[CosineSchedule(0.01), stop], random_state=0).fit(x, y)
    assert stop.best is None and model.n_iter_ == 3 and model.history_[-1]["lr"] < 0.01
    once = weights_of(model)
    assert weights_of(model.fit(x, y)) == once == weights_of(clone(model).fit(x, y))


# ---------------------------------------------------------------- among scikit-learn's tools


def test_parameters() -> None:
    model = RetrogradClassifier(Net, module__hidden=3, optimizer__eps=1e-6)
    assert model.get_params()["module__hidden"] == 3 and model.set_params(module__hidden=5, lr=0.5).lr == 0.5
    copy = clone(model).set_params(loss__label_smoothing=0.1)
    assert copy.get_params() == {**model.get_params(), "loss__label_smoothing": 0.1}
    assert "".join(repr(model).split()) == (
        f"RetrogradClassifier(lr=0.5,module=<class'{__name__}.Net'>,module__hidden=5,optimizer__eps=1e-06)"
    )
    assert "module__hidden" in model._repr_html_()


def test_a_stored_estimator_predicts_the_same_and_learns_on(tmp_path: Any) -> None:
    x, y = blobs()
    model = RetrogradClassifier(module__hidden=(600, 600), epochs=2, random_state=0).fit(x, y)
    joblib.dump(model, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    for other in (pickle.loads(pickle.dumps(model)), mapped):
        assert (other.predict_proba(x) == model.predict_proba(x)).all()
    model.partial_fit(x, y)
    assert weights_of(mapped.partial_fit(x, y)) == weights_of(model)


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("RETROGRAD_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    yield
    get_reusable_executor().shutdown(wait=True)


@pytest.mark.nightly
def test_a_search_in_two_processes(two_processes: None) -> None:
    x, y = blobs()
    big = nn.Sequential(
        nn.Linear(4, 600), nn.ReLU(), nn.Linear(600, 600), nn.ReLU(), nn.Linear(600, 3)
    )  # joblib maps it
    pipeline = Pipeline([("scale", StandardScaler()), ("net", RetrogradClassifier(epochs=2, random_state=0))])
    grid = [
        {"net__module__hidden": [4, (8, 8)], "net__lr": [0.1, 0.001]},
        {"net__module": [big, lambda: nn.Linear(4, 3)]},
    ]
    searches = [GridSearchCV(pipeline, grid, cv=2, n_jobs=jobs).fit(x, y) for jobs in (1, 2)]
    for key in ("mean_test_score", "rank_test_score"):
        assert searches[0].cv_results_[key].tolist() == searches[1].cv_results_[key].tolist()
    assert searches[0].score(x, y) == searches[1].score(x, y)
    threads = joblib.Parallel(2)(joblib.delayed(rg.get_num_threads)() for _ in range(2))
    assert threads == [max(1, joblib.cpu_count() // 2)] * 2


def test_scores_and_other_tools() -> None:
    x, y = blobs()
    scores = cross_val_score(
        RetrogradClassifier(epochs=20, lr=0.01, random_state=0), x, y, cv=3, scoring="neg_log_loss"
    )
    assert (scores > -0.5).all()
    both = MultiOutputClassifier(RetrogradClassifier(epochs=20, lr=0.01, random_state=0)).fit(x, np.c_[y, y % 2])
    assert both.predict(x).shape == (60, 2)


def test_progress_is_shown_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = blobs()
    RetrogradClassifier(epochs=2).fit(x, y)
    assert capsys.readouterr() == ("", "")
    RetrogradClassifier(epochs=2, verbose=1).fit(x, y)
    assert "epoch 2/2  loss" in (shown := capsys.readouterr().err) and "samples/s" in shown


def test_the_perceptron() -> None:
    widths = [tuple(layer.weight.shape) for layer in perceptron(4, 2, hidden=(5, 6)) if isinstance(layer, nn.Linear)]
    assert widths == [(5, 4), (6, 5), (2, 6)] and len(perceptron(4, 2, hidden=())) == 1
    with pytest.raises(ValueError, match="perceptron: hidden is 0; it must be an integer of at least 1"):
        perceptron(4, 2, hidden=0)


# ---------------------------------------------------------------- messages


class Narrow(nn.Module):
    def forward(self, x):
        return x[:, :3]


def no_reduction(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()


C, R = RetrogradClassifier, RetrogradRegressor
WRONG: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (
        C,
        {"module": Net, "module__hiden": 3},
        ValueError,
        r"module__hiden is set, but Net has no parameter 'hiden'; there are module__n_features, .*mean module__hidden",
    ),
    (
        C,
        {"module": nn.Linear(4, 3), "module__bias": False},
        ValueError,
        "module is an instance of Linear, so module__bias cannot be set; pass a class .*module=Linear",
    ),
    (C, {"module": 3}, TypeError, "module=3 must be a Module, or a class or function that makes one"),
    (C, {"module": lambda: 3}, TypeError, "module=<lambda> returned int; it must return an nn.Module"),
    (C, {"module": lambda width: nn.Linear(4, width)}, ValueError, r"<lambda> needs width; set module__width=\.\.\."),
    (
        C,
        {"module": nn.Linear(4, 5)},
        ValueError,
        r"for 2 samples the module returns shape \(2, 5\), expected \(2, 3\), a score for each of the 3 classes of y; "
        "give its last layer 3 outputs, or let the class or function that makes it take n_outputs",
    ),
    (R, {"module": nn.Linear(4, 5)}, ValueError, r"expected \(2, 1\), one number; give its last layer 1 output,"),
    (C, {"module": nn.Linear(7, 3)}, ValueError, r"the module cannot take samples of shape \(4,\) as float32, .*: .*7"),
    (C, {"module": nn.Embedding(4, 3)}, ValueError, "as float32, which the parameter dtype sets: .* needs an int64"),
    (C, {"optimizer": "LBFGS"}, ValueError, "choose another optimizer"),
    (C, {"module": lambda: nn.Sequential(nn.Identity(), Narrow())}, ValueError, "has no parameters to train"),
    (C, {"callbacks": CosineSchedule(0.1)}, TypeError, "callbacks=<.*> must be a list of retrograd.train.Callback"),
    (C, {"optimizer": rg.optim.SGD([rg.rand(3)], lr=0.1)}, TypeError, "optimizer is an instance of SGD; it must"),
    (C, {"module": nn.LSTM(4, 3)}, TypeError, r"the module returns tuple, it must return one Tensor of shape \(N, 3\)"),
    (C, {"optimizer": "Adm"}, ValueError, r"optimizer='Adm' is unknown; the names are ASGD, .*did you mean Adam\?"),
    (C, {"optimizer": 3}, TypeError, "optimizer is 3; it must be a name such as 'Adam', or a class of retrograd.optim"),
    (C, {"optimizer__lr": 3}, ValueError, "optimizer__lr=3 is the parameter lr"),
    (C, {"optimizer__beta": 3}, ValueError, r"Adam has no parameter 'beta'; .*did you mean optimizer__betas"),
    (C, {"lr": -1}, ValueError, "lr"),
    (C, {"loss": "MSE"}, ValueError, r"loss='MSE' is unknown; the names are .*did you mean MSELoss\?"),
    (C, {"loss": 3}, TypeError, "loss=3 must be a name such as 'MSELoss', a class or a function"),
    (
        C,
        {"loss": nn.functional.cross_entropy, "loss__weight": 3},
        ValueError,
        "loss__weight cannot be set, as loss is not a class",
    ),
    (C, {"dtype": "float16"}, ValueError, "RetrogradClassifier: dtype is 'float16'; it must be"),
    (C, {"dtype": [1]}, ValueError, "RetrogradClassifier: dtype is"),
    (C, {"epochs": 0}, ValueError, "RetrogradClassifier: epochs is 0; it must be an integer of at least 1"),
    (C, {"batch_size": 0.5}, ValueError, "RetrogradClassifier: batch_size is 0.5; it must be an integer of at least 1"),
    (C, {"early_stopping": True, "validation_fraction": 1}, ValueError, "validation_fraction is 1; it must be greater"),
    (C, {"early_stopping": True, "n_iter_no_change": 0}, ValueError, "n_iter_no_change is 0; it must be"),
    (C, {"early_stopping": True, "tol": -1}, ValueError, "tol is -1; it must be"),
    (C, {"random_state": -1}, ValueError, "."),
    (R, {"lr": 1e30, "optimizer": "SGD"}, TrainingError, "try a smaller learning rate"),
]


@pytest.mark.parametrize(("kind", "settings", "error", "message"), WRONG)
def test_what_is_wrong_with_a_parameter_is_said(kind: Any, settings: Any, error: Any, message: str) -> None:
    x, y = blobs()
    with pytest.raises(error, match=message):
        kind(**settings).fit(x, y)


def test_an_unknown_parameter_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"no parameter 'epoch' \(did you mean epochs\?\); arguments .* module__NAME"):
        RetrogradClassifier(epoch=3)
    with pytest.raises(ValueError, match="Invalid parameter 'epoch'"):
        RetrogradClassifier().set_params(epoch=3)


def test_what_is_wrong_with_the_data_is_said() -> None:
    x, y = blobs()
    model = RetrogradClassifier(epochs=1)
    with pytest.raises(NotFittedError):
        model.predict(x)
    with pytest.raises(ValueError, match="the first partial_fit needs classes"):
        model.partial_fit(x, y)
    with pytest.raises(ValueError, match=r"y has the classes \['7'\], which are not among classes_, \['0', '1', '2'\]"):
        model.partial_fit(x, np.where(y == 1, 7, y), classes=[0, 1, 2])
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(np.where(x > 0, np.nan, x), y)
    with pytest.raises(ValueError, match="dim 4"):
        model.fit(Digits().tensors[0].array, Digits().tensors[1].array)
    with pytest.raises(ValueError, match="3 features, but RetrogradClassifier is expecting 4"):
        model.fit(x, y).predict(x[:, :3])
    with pytest.raises(ValueError, match="[Nn]egative"):
        model.fit(x, y, sample_weight=-np.ones(60))
    with pytest.raises(ValueError, match="zero"):
        model.fit(x, y, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match=r"y has shape \(60, 1, 1\); it must be \(N,\) or \(N, outputs\)|dim"):
        RetrogradRegressor().fit(x, y[:, None, None])
    with pytest.raises(ValueError, match="loss=no_reduction takes no reduction='none'; leave sample_weight out"):
        RetrogradRegressor(loss=no_reduction).fit(x, y, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="loss__reduction and sample_weight exclude each other"):
        RetrogradRegressor(loss__reduction="sum").fit(x, y, sample_weight=np.ones(60))


def test_without_scikit_learn_the_message_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import retrograd.interop\n"
        "try:\n    import retrograd.interop.sklearn\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout == "scikit-learn is not installed: pip install 'retrograd[sklearn]'\n"


def test_repeated_predictions_are_recorded() -> None:
    """From the third call of a shape on; a changed or replaced network is seen."""
    X = np.random.default_rng(0).standard_normal((40, 4))
    y = (X[:, 0] > 0).astype(int)
    model = RetrogradClassifier(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), epochs=1).fit(X, y)
    wanted = model.predict_proba(X)
    for _ in range(5):
        np.testing.assert_array_equal(model.predict_proba(X), wanted)
    assert "launches" in rg.explain_recording(model._repeated)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), wanted)
    with rg.no_grad():
        model.module_[2].weight.mul_(0)
    assert not np.array_equal(model.predict_proba(X), wanted)
    model.module_ = nn.Linear(4, 2).eval()
    with rg.no_grad():
        found = model.module_(rg.Tensor(X.astype(np.float32))).softmax(-1).numpy()
    np.testing.assert_allclose(model.predict_proba(X), found, rtol=1e-5)
