"""RetrogradClassifier: a network that tells classes apart, as an estimator of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from ... import nn
from ..._files.state import names
from ...engine.tensor import Tensor
from ...ops.normalization.softmax import log_softmax
from .estimator import Estimator

__all__ = ["RetrogradClassifier"]


class RetrogradClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """A network that tells classes apart, as an estimator of scikit-learn.

    module: a class or function that makes the network, called with what it has parameters for: n_outputs (or
        out_features, n_classes), the number of classes; n_features (or in_features), which is X.shape[1]; input_shape,
        which is X.shape[1:]; and the arguments that are set as module__NAME. Or a Module, of which each fit trains a
        copy. None is ``perceptron``, for rows of features. The network returns scores (N, classes), to which softmax
        is yet to be applied.
    epochs: passes over the data.
    batch_size: samples per step.
    lr: the learning rate.
    optimizer: the name or the class of an optimizer; optimizer__NAME sets its arguments.
    loss: the name or the class of a loss, whose arguments loss__NAME sets; or a function of output (N, classes) and
        classes (N,), int64. None is CrossEntropyLoss.
    dtype: "float32" or "float64", the element type of X and of the network; or "int64", that of X alone, for indices
        of an Embedding.
    early_stopping: hold samples out, and end training when the loss on them no longer improves; the best weights stay.
    validation_fraction: the share of samples to hold out, each class alike.
    n_iter_no_change: epochs without an improvement to allow.
    tol: an improvement is greater than this.
    callbacks: a list of retrograd.train.Callback, copied for each fit.
    warm_start: fit goes on with the network of the last fit, where there is one.
    random_state: an int, of which the weights and the order of samples are a function, as after
        ``retrograd.manual_seed``; a RandomState; or None, which draws from NumPy's global one. retrograd's own
        generator is left as it was. A module that is already made keeps its weights.
    verbose: 1 shows the progress of training on stderr.

    After fit: ``module_``, the trained network; ``classes_``; ``history_``, a retrograd.train.History with one record
    per epoch; ``loss_curve_``, ``loss_``, ``n_iter_`` (epochs), ``n_features_in_``, ``feature_names_in_``,
    ``optimizer_``.

    Raises:
        TypeError: a name is neither a parameter nor module__NAME, optimizer__NAME or loss__NAME.
    """

    default_loss = nn.CrossEntropyLoss

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One epoch over these samples, further with the network that is there.

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
        """The class (N,) of each sample: that with the highest score.

        Raises:
            NotFittedError: there was no fit.
            ValueError: X is unlike that of fit.
        """
        outputs = self._outputs_of(X)
        found: np.ndarray = self.classes_[outputs.argmax(1)]
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (N, classes), float64: softmax of the scores.

        Raises: as predict.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities (N, classes), float64.

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
