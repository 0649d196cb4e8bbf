"""RetrogradClassifier and RetrogradRegressor, scikit-learn estimators, and their base class."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ... import nn
from ..._files.state import brief, choice, count, names, number, reason
from ...data.dataset import TensorDataset
from ...data.loader import DataLoader
from ...data.sampler import BatchSampler, RandomSampler
from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor
from ...nn.compilation import compiled_if_repeated
from ...ops.normalization.softmax import log_softmax
from ...ops.random.random import default_generator, fork_rng
from ...optim import Optimizer
from ...train import Callback, EarlyStopping, Fit, History, Progress, make_progress
from .components import PARTS, make_loss, make_module, make_optimizer, meant

__all__ = ["Estimator", "RetrogradClassifier", "RetrogradRegressor"]


# ---- Base class of the two scikit-learn estimators: parameters, and training by `retrograd.train` -------------------

_AT_ONCE = 512  # samples whose outputs are computed together
_turn = threading.RLock()  # concurrent fits take turns, since all draw from one generator


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base class of RetrogradClassifier and RetrogradRegressor, which document the parameters."""

    module_: nn.Module
    optimizer_: Optimizer
    history_: History
    _random: dict[str, Any]  # the generator state after training

    default_loss: type[nn.Module]
    target: ClassVar[dict[str, Any]] = {}  # options of scikit-learn's check of y

    def __init__(
        self,
        module: Any = None,
        *,
        epochs: int = 100,
        batch_size: int = 32,
        lr: float = 0.001,
        optimizer: Any = "Adam",
        loss: Any = None,
        dtype: Any = "float32",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 0.0001,
        callbacks: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        **module__arguments: Any,  # and arguments of the optimizer and the loss
    ) -> None:
        self.module = module
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.optimizer = optimizer
        self.loss = loss
        self.dtype = dtype
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        for name, value in module__arguments.items():
            if not _of_part(name):
                raise TypeError(
                    f"{type(self).__name__}: there is no parameter {name!r}{meant(name, self._get_param_names())}; "
                    "arguments of the module, the optimizer and the loss are written module__NAME, optimizer__NAME and "
                    "loss__NAME"
                )
            setattr(self, name, value)

    # ---- Parameters -------------------------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters by name, including the arguments set for the parts, such as ``module__hidden``.

        deep: also return the parameters of parameters that are estimators themselves.
        """
        own: dict[str, Any] = super().get_params(deep)
        return own | {name: value for name, value in vars(self).items() if _of_part(name)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including arguments of the parts.

        Raises:
            ValueError: there is no such parameter.
        """
        parts = {name: params.pop(name) for name in list(params) if _of_part(name)}
        super().set_params(**params)
        for name, value in parts.items():
            setattr(self, name, value)
        return self

    def _arguments(self, part: str) -> dict[str, Any]:
        prefix = f"{part}__"
        return {name.removeprefix(prefix): value for name, value in vars(self).items() if name.startswith(prefix)}

    def _checked(self, name: str, check: Callable[[str, Any], Any]) -> Any:
        return check(f"{type(self).__name__}: {name}", getattr(self, name))

    # ---- Training ---------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a new module or, with ``warm_start``, continue to train that of the last fit.

        X: samples (N, features), or (N, ...) with your own module.
        y: what to predict.
        sample_weight: (N,), at least 0; only their ratios matter. The gradient of a step is the mean of weight times
            gradient over its samples.

        Raises:
            TypeError, ValueError: X, y, the weights or a parameter is invalid; the message says why.
            TrainingError: the loss is NaN or infinite; the message says where that started.
        """
        further = bool(self.warm_start) and hasattr(self, "module_")
        epochs = self._checked("epochs", count(1))
        return self._train(X, y, sample_weight, epochs, further, bool(self.early_stopping), known=further)

    def _train(
        self, X: Any, y: Any, sample_weight: Any, epochs: int, further: bool, early_stopping: bool, known: bool
    ) -> Self:
        """Train for some epochs: a new module, or the existing one if ``further``.

        known: whether the classes, or the number of outputs, are already set.
        """
        weighted = sample_weight is not None
        x, y = self._validated(X, y=y, reset=not further, **self.target)
        y = self._encoded(y, known)
        arrays: list[np.ndarray] = [x, y]
        if weighted:
            weights = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
            if not weights.any():
                raise ValueError(f"{type(self).__name__}: all of sample_weight is zero; at least one must be greater")
            arrays.append((weights / weights.mean()).astype(self._float()))
        batch_size = self._checked("batch_size", count(1))
        loss = make_loss(type(self).__name__, self.loss, self._arguments("loss"), self.default_loss, weighted)
        with _turn, fork_rng():
            if further:
                model, optimizer, history = self.module_, self.optimizer_, self.history_
                default_generator.set_state(self._random)
            else:
                seed = check_random_state(self.random_state).randint(2**31 - 1)
                is_seed = isinstance(self.random_state, (int, np.integer))
                default_generator.manual_seed(int(self.random_state if is_seed else seed))
                model, history = self._new_module(x), History()
            arrays[1] = self._shaped(y, self._tried(model, x))
            if not further:
                optimizer = make_optimizer(
                    type(self).__name__, self.optimizer, self._arguments("optimizer"), self.lr, model
                )
            train, held_out = self._split(arrays, y) if early_stopping else (arrays, None)
            running = Fit(
                model,
                _loader(train, batch_size),
                optimizer,
                loss,
                None if held_out is None else DataLoader(TensorDataset(*held_out), _AT_ONCE),
                callbacks=self._callbacks(early_stopping),
                progress=self._progress(),
            )
            running.epoch, running.history = len(history), copy.copy(history)
            running.steps = history[-1]["step"] if history else 0
            running.train(len(history) + epochs)
            self._random = default_generator.get_state()
        optimizer.zero_grad()
        self.module_, self.optimizer_, self.history_ = model.eval(), optimizer, running.history
        self._of, self._repeated = self.module_, compiled_if_repeated(self.module_)
        self.n_iter_: int = len(self.history_)
        self.loss_curve_: list[Any] = self.history_.column("loss")
        self.loss_: Any = self.loss_curve_[-1]
        return self

    def _validated(self, X: Any, **options: Any) -> Any:
        of_any_shape = self.module is not None
        return validate_data(self, X, dtype=self._dtype(), order="C", allow_nd=of_any_shape, **options)

    def _dtype(self) -> np.dtype[Any]:
        try:
            name = np.dtype(self.dtype).name
        except TypeError:
            name = self.dtype
        return np.dtype(choice("float32", "float64", "int64")(f"{type(self).__name__}: dtype", name))

    def _float(self) -> np.dtype[Any]:
        """The element type of weights and targets: float32 if X has integers."""
        dtype = self._dtype()
        return dtype if dtype.kind == "f" else np.dtype(np.float32)

    def _new_module(self, x: np.ndarray) -> nn.Module:
        outputs = self._outputs()
        sizes = {
            **dict.fromkeys(("n_features", "in_features"), x.shape[1]),
            "input_shape": x.shape[1:],
            **dict.fromkeys(("n_outputs", "out_features", "n_classes"), outputs),
        }
        model = make_module(type(self).__name__, self.module, self._arguments("module"), sizes)
        return model.to(self._dtype()) if self._dtype().kind == "f" else model

    def _tried(self, model: nn.Module, x: np.ndarray) -> tuple[int, ...]:
        """Return the shape of one sample's output, checked before training; this also initializes a lazy module."""
        owner, few = type(self).__name__, x[:2]
        model.eval()
        try:
            with no_grad():
                output = model(Tensor(few))
        except Exception as error:
            raise ValueError(
                f"{owner}: the module cannot take samples of shape {few.shape[1:]} as {few.dtype}, which the parameter "
                f"dtype sets: {reason(error)}"
            ) from error
        n_outputs = self._outputs()
        if not isinstance(output, Tensor):
            raise TypeError(
                f"{owner}: the module returns {type(output).__name__}, it must return one Tensor of shape "
                f"(N, {n_outputs}); wrap it in a Module whose forward picks that"
            )
        shapes = [(len(few), n_outputs), *([(len(few),)] if n_outputs == 1 and is_regressor(self) else [])]
        if output.shape not in shapes:
            outputs = "1 output" if n_outputs == 1 else f"{n_outputs} outputs"
            raise ValueError(
                f"{owner}: for {len(few)} samples the module returns shape {tuple(output.shape)}, expected "
                f"{shapes[0]}, {self._meaning(n_outputs)}; give its last layer {outputs}, or let the class or function "
                "that makes it take n_outputs"
            )
        return tuple(output.shape[1:])

    def _split(self, arrays: list[np.ndarray], y: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        from sklearn.model_selection import train_test_split  # imported late: it takes a tenth of a second

        fraction = self._checked("validation_fraction", number(0, 1))
        if not 0 < fraction < 1:
            raise ValueError(
                f"{type(self).__name__}: validation_fraction is {fraction}; it must be greater than 0 and less than 1"
            )
        seed = int(default_generator.integers(2**31 - 1))
        parts = train_test_split(*arrays, test_size=fraction, random_state=seed, stratify=self._strata(y))
        return parts[::2], parts[1::2]

    def _callbacks(self, early_stopping: bool) -> list[Callback]:
        given = self.callbacks or ()
        if not isinstance(given, (list, tuple)) or not all(isinstance(each, Callback) for each in given):
            raise TypeError(
                f"{type(self).__name__}: callbacks={brief(given)} must be a list of retrograd.train.Callback, or None"
            )
        own: list[Callback] = [copy.deepcopy(each) for each in given]  # a fresh copy for each fit
        if early_stopping:
            patience, tol = self._checked("n_iter_no_change", count(1)), self._checked("tol", number(0))
            own.append(EarlyStopping(patience=patience, min_delta=tol))
        return own

    def _progress(self) -> Progress:
        progress = make_progress() if self.verbose else Progress()
        progress.unit = "samples"
        return progress

    # ---- Prediction -------------------------------------------------------------------------------------------------

    def _outputs_of(self, X: Any) -> np.ndarray:
        """Return the outputs (N, outputs) of the trained module."""
        check_is_fitted(self, "module_")
        x = self._validated(X, reset=False)
        self.module_.eval()
        network = self._repeated if getattr(self, "_of", None) is self.module_ else self.module_
        with no_grad():
            parts = [network(Tensor(x[at : at + _AT_ONCE])).array for at in range(0, len(x), _AT_ONCE)]
        return np.concatenate(parts)

    # ---- Differences between the estimators -------------------------------------------------------------------------

    def _encoded(self, y: np.ndarray, known: bool) -> np.ndarray:
        """Return the training targets; record what they are, or check that they match what is ``known``."""
        raise NotImplementedError

    def _outputs(self) -> int:
        """Return the number of outputs that the module must have for each sample."""
        raise NotImplementedError

    def _meaning(self, outputs: int) -> str:
        """Describe the required outputs, for an error message."""
        raise NotImplementedError

    def _shaped(self, y: np.ndarray, of_sample: tuple[int, ...]) -> np.ndarray:
        """Return the targets in the shape that the loss needs for outputs of this shape."""
        return y

    def _strata(self, y: np.ndarray) -> np.ndarray | None:
        """Return the classes whose proportions a split preserves."""
        return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = self.module is not None
        return tags


class _Batches(BatchSampler):
    """A batch sampler that merges a last batch of one sample into the one before it.

    Batch norm cannot learn from a single sample, and whether one is left over depends on the size of the data.
    """

    def __iter__(self) -> Iterator[list[int]]:
        held: list[int] = []
        for batch in super().__iter__():
            if held and len(batch) == 1 < self.batch_size:
                batch, held = held + batch, []
            if held:
                yield held
            held = batch
        if held:
            yield held

    def __len__(self) -> int:
        samples = len(self.sampler)  # type: ignore[arg-type]
        return super().__len__() - (samples > self.batch_size > 1 == samples % self.batch_size)


def _loader(arrays: list[np.ndarray], batch_size: int) -> DataLoader:
    data = TensorDataset(*arrays)
    return DataLoader(data, batch_sampler=_Batches(RandomSampler(data), batch_size, False))


def _of_part(name: str) -> bool:
    return name.partition("__")[0] in PARTS and name.partition("__")[2] != ""


# ---- RetrogradClassifier --------------------------------------------------------------------------------------------


class RetrogradClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """A neural network classifier as a scikit-learn estimator.

    module: a class or function that makes the network. It is called with those of these arguments that it has
        parameters for: n_outputs (or out_features, n_classes), the number of classes; n_features (or in_features),
        X.shape[1]; input_shape, X.shape[1:]; and the arguments set as module__NAME. Or a Module, of which each fit
        trains a copy.
        None means ``perceptron``, for rows of features. The network returns scores (N, classes) before softmax.
    epochs: passes over the data.
    batch_size: samples per step.
    lr: the learning rate.
    optimizer: the name or the class of an optimizer; optimizer__NAME sets its arguments.
    loss: the name or the class of a loss, whose arguments loss__NAME sets; or a function of output (N, classes) and
        classes (N,), int64. None means CrossEntropyLoss.
    dtype: "float32" or "float64", the element type of X and of the network; or "int64", for X only, such as indices of
        an Embedding.
    early_stopping: hold out samples and stop training when their loss no longer improves; the best weights are kept.
    validation_fraction: the share of samples to hold out, stratified by class.
    n_iter_no_change: the number of epochs allowed without an improvement.
    tol: only a decrease larger than this counts as an improvement.
    callbacks: a list of retrograd.train.Callback, copied for each fit.
    warm_start: fit continues with the network of the last fit, if there is one.
    random_state: an int, which determines the initial weights and the order of samples, as after
        ``retrograd.manual_seed``; a RandomState; or None, which draws from NumPy's global one. retrograd's own
        generator is restored afterwards. A given Module keeps its weights.
    verbose: 1 shows the progress of training on stderr.

    After fit: ``module_``, the trained network; ``classes_``; ``history_``, a retrograd.train.History with one record
    per epoch; ``loss_curve_``, ``loss_``, ``n_iter_`` (epochs), ``n_features_in_``, ``feature_names_in_``,
    ``optimizer_``.

    Raises:
        TypeError: a name is neither a parameter nor module__NAME, optimizer__NAME or loss__NAME.
    """

    default_loss: type[nn.Module] = nn.CrossEntropyLoss

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train for one epoch on these samples, continuing with the existing network.

        classes: all classes there will be; needed in the first call.
        X, y, sample_weight: as for ``fit``.

        Raises: as ``fit``; ValueError also if classes are missing in the first call.
        """
        further = hasattr(self, "module_")
        if not further:
            if classes is None:
                raise ValueError(
                    f"{type(self).__name__}: the first partial_fit needs classes, as y may lack some; pass "
                    "classes=np.unique(y_of_all)"
                )
            self.classes_ = unique_labels(classes)
        return self._train(X, y, sample_weight, 1, further, early_stopping=False, known=True)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class (N,) of each sample, the one with the highest score.

        Raises:
            NotFittedError: the estimator is not fitted.
            ValueError: X does not match the X of fit.
        """
        outputs = self._outputs_of(X)
        found: np.ndarray = self.classes_[outputs.argmax(1)]
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return probabilities (N, classes), float64: softmax of the scores.

        Raises: as predict.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return logarithms of the probabilities (N, classes), float64.

        Raises: as predict.
        """
        return log_softmax(Tensor(self._outputs_of(X).astype(np.float64)), 1).array

    def _encoded(self, y: np.ndarray, known: bool) -> np.ndarray:
        check_classification_targets(y)
        if not known:
            self.classes_ = np.unique(y)
        elif strange := set(y.tolist()) - set(self.classes_.tolist()):
            raise ValueError(
                f"{type(self).__name__}: y has the classes {names(strange)}, which are not among classes_, "
                f"{names(self.classes_)}; train a new estimator for other classes"
            )
        return np.searchsorted(self.classes_, y).astype(np.int64)

    def _outputs(self) -> int:
        return len(self.classes_)

    def _meaning(self, outputs: int) -> str:
        return f"a score for each of the {outputs} classes of y"

    def _strata(self, y: np.ndarray) -> np.ndarray:
        return y


# ---- RetrogradRegressor ---------------------------------------------------------------------------------------------


class RetrogradRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """A neural network regressor as a scikit-learn estimator.

    module: as for RetrogradClassifier; n_outputs is the number of columns of y. The network returns (N, n_outputs), or
        for one output (N,).
    loss: None means MSELoss; a function gets output and target in the shape of the output.
    epochs, batch_size, lr, optimizer, dtype, early_stopping, validation_fraction, n_iter_no_change, tol, callbacks,
    warm_start, random_state, verbose: as for RetrogradClassifier.

    Scale y to about unit variance first; sklearn.compose.TransformedTargetRegressor does so and undoes it in predict.

    After fit: as RetrogradClassifier, with ``n_outputs_`` instead of ``classes_``.

    Raises:
        TypeError: a name is neither a parameter nor module__NAME, optimizer__NAME or loss__NAME.
    """

    default_loss: type[nn.Module] = nn.MSELoss
    target: ClassVar[dict[str, Any]] = {"multi_output": True, "y_numeric": True}

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one epoch on these samples, continuing with the existing network.

        X, y, sample_weight: as for ``fit``.

        Raises: as ``fit``.
        """
        further = hasattr(self, "module_")
        return self._train(X, y, sample_weight, 1, further, early_stopping=False, known=further)

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions (N,), or (N, outputs) if y had two axes; float64.

        Raises:
            NotFittedError: the estimator is not fitted.
            ValueError: X does not match the X of fit.
        """
        outputs = self._outputs_of(X).astype(np.float64)
        return outputs.reshape(len(outputs), *self._of_sample)

    def _encoded(self, y: np.ndarray, known: bool) -> np.ndarray:
        if y.ndim > 2:
            raise ValueError(
                f"{type(self).__name__}: y has shape {y.shape}; it must be (N,) or (N, outputs); flatten further axes"
            )
        if not known:
            self._of_sample = y.shape[1:]
            self.n_outputs_ = y.shape[1] if y.ndim == 2 else 1
        elif y.shape[1:] != self._of_sample:
            raise ValueError(
                f"{type(self).__name__}: y has shape {y.shape}, but in the first fit it was {('N', *self._of_sample)}; "
                "train a new estimator for other outputs"
            )
        return y.astype(self._float())

    def _outputs(self) -> int:
        return self.n_outputs_

    def _meaning(self, outputs: int) -> str:
        return "one number" if outputs == 1 else f"one number for each of the {outputs} columns of y"

    def _shaped(self, y: np.ndarray, of_sample: tuple[int, ...]) -> np.ndarray:
        return y.reshape(len(y), *of_sample)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
