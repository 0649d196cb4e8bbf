"""Networks as scikit-learn estimators, for search, cross-validation, pipelines and storage like any other estimator.

>>> from retrograd.interop.sklearn import RetrogradClassifier, RetrogradRegressor
"""

try:
    import sklearn as _sklearn
except ImportError:
    raise ImportError("scikit-learn is not installed: pip install 'retrograd[sklearn]'") from None

from .components import perceptron
from .estimators import RetrogradClassifier, RetrogradRegressor

__all__ = ["RetrogradClassifier", "RetrogradRegressor", "perceptron"]
