"""ONNX's own backend tests, run by our backend: which pass, and why others do not."""

from __future__ import annotations

import re
import unittest
import warnings
from functools import cache, lru_cache
from typing import NamedTuple

import onnx.backend.test

from conftest import numpy_2
from retrograd.onnx.backend import RetrogradBackend

# operators that are not supported, and why
TEXT, TREES, SIGNALS, IMAGES = "text", "a domain of classical models", "signals", "images"
REFUSED = {
    **dict.fromkeys(("StringNormalizer", "StringSplit", "StringConcat", "RegexFullMatch", "TfIdfVectorizer"), TEXT),
    **dict.fromkeys(("LabelEncoder", "TreeEnsemble", "ArrayFeatureExtractor", "Binarizer"), TREES),
    **dict.fromkeys(("MelWeightMatrix",), SIGNALS),
    **dict.fromkeys(("ImageDecoder", "NonMaxSuppression", "RoiAlign"), IMAGES),
    **dict.fromkeys(("LinearAttention", "FlexAttention"), "kinds of attention that we do not have"),
}
RANDOM = "other random numbers"
# tests that do not pass, and why
OTHER = {
    r"test_bernoulli.*": RANDOM,
    r"test_attention_4d_causal_fp16_expanded": "rounds once to float16, the function body at each operator",
    r"test_loop16_seq_none": "an optional sequence, which the suite cannot compare",
    r"test_scan_sum": "Scan of opset 8",
    r"test_dft_inverse(_opset19)?": "zeros, where rounding errors of 2e-7 are expected",
}
CORE = (
    "Conv",
    "ConvTranspose",
    "ConvInteger",
    "QLinearConv",
    "DeformConv",
    "CausalConvWithState",
    "RNN",
    "LSTM",
    "GRU",
    "MaxPool",
    "AveragePool",
    "LpPool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "MaxUnpool",
    "BatchNormalization",
    "LayerNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "RMSNormalization",
    "LRN",
    "MeanVarianceNormalization",
    "Gemm",
    "MatMul",
    "Softmax",
    "LogSoftmax",
    "NegativeLogLikelihoodLoss",
    "SoftmaxCrossEntropyLoss",
    "Dropout",
    "Col2Im",
    "Adam",
    "Adagrad",
    "Momentum",
    "Gradient",
)


class Outcome(NamedTuple):
    """The outcome of a test: "passed", "refused" (REFUSED), "excused" (OTHER) or "failed"; text: operator or reason."""

    kind: str
    text: str = ""


@lru_cache(maxsize=1)
def cases() -> dict[str, unittest.TestCase]:
    """All tests that need no download, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the models that the suite makes
        classes = onnx.backend.test.BackendTest(RetrogradBackend, __name__).test_cases
    found = {}
    for kind, cls in classes.items():
        if "Real" not in kind:
            for name in dir(cls):
                if name.startswith("test_") and name.endswith("_cpu"):
                    found[name.removesuffix("_cpu")] = cls(name)
    return found


@cache
def outcome(name: str) -> Outcome:
    """Run a test."""
    excuse = next((reason for pattern, reason in OTHER.items() if re.fullmatch(pattern, name)), None)
    if excuse == RANDOM:
        return Outcome("excused", excuse)
    result = unittest.TestResult()
    cases()[name].run(result)
    if result.wasSuccessful() and not result.skipped:
        return Outcome("passed")
    text = (result.errors or result.failures or result.skipped)[0][1]
    if not numpy_2 and "DTypePromotionError" in text:
        return Outcome("excused", "NumPy 1.26 cannot compare numbers of 8 bits")
    refused = re.search(r"the operator (\w+) of \S+ is not supported", text)
    if refused and refused[1] in REFUSED:
        return Outcome("refused", refused[1])
    return Outcome("failed", text) if excuse is None else Outcome("excused", excuse)


@lru_cache(maxsize=1)
def operators() -> dict[str, str]:
    """Return the operator of each test of a single node, without function bodies."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = load_model_tests(kind="node")
    return {
        case.name: case.model.graph.node[0].op_type
        for case in nodes
        if "_expanded" not in case.name and len(case.model.graph.node) == 1
    }
