"""RetrogradRegressor: a network that predicts numbers, as an estimator of scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin

from ... import nn
from .estimator import Estimator

__all__ = ["RetrogradRegressor"]


class RetrogradRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """A network that predicts numbers, as an estimator of scikit-learn.

    module: as for RetrogradClassifier; n_outputs is the number of columns of y. The network returns (N, n_outputs), or
        for one output (N,).
    loss: None is MSELoss; a function gets output and target in the shape of the output.
    epochs, batch_size, lr, optimizer, dtype, early_stopping, validation_fraction, n_iter_no_change, tol, callbacks,
    warm_start, random_state, verbose: as for RetrogradClassifier.

    Scale y to about unit variance before: sklearn.compose.TransformedTargetRegressor does, and undoes it in predict.

    After fit: as RetrogradClassifier, with ``n_outputs_`` for ``classes_``.

    Raises:
        TypeError: a name is neither a parameter nor module__NAME, optimizer__NAME or loss__NAME.
    """

    default_loss = nn.MSELoss
    target: ClassVar[dict[str, Any]] = {"multi_output": True, "y_numeric": True}

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One epoch over these samples, further with the network that is there.

        X, y, sample_weight: as for ``fit``.

        Raises: as ``fit``.
        """
        further = hasattr(self, "module_")
        return self._train(X, y, sample_weight, 1, further, early_stopping=False, known=further)

    def predict(self, X: Any) -> np.ndarray:
        """Predictions (N,), or (N, outputs) if y had two axes; float64.

        Raises:
            NotFittedError: there was no fit.
            ValueError: X is unlike that of fit.
        """
        outputs = self._outputs_of(X).astype(np.float64)
        return outputs.reshape(len(outputs), *self._of_sample)

    def _encoded(self, y: np.ndarray, known: bool) -> np.ndarray:
        if y.ndim > 2:
            raise ValueError(
                f"{type(self).__name__}: y has shape {y.shape}; it must be (N,) or (N, outputs): flatten what is more"
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
