"""Generates a random call as a line of code: mostly plausible arguments, some of them odd."""

from __future__ import annotations

import inspect
import random
import re
from typing import Any

from .targets import Target

SHAPES = [(), (1,), (3,), (2, 3), (3, 3), (2, 3, 4), (1, 1), (4, 4, 4), (2, 3, 5, 5), (0,), (0, 3), (2, 1, 4), (33,)]
FLOATS = ("float32", "float64")
DTYPES = (*FLOATS, "int64", "bool", "uint8", "int32", "float16", "int8")
ODD = (
    "None",
    "True",
    "False",
    "0",
    "1",
    "-1",
    "2",
    "-2",
    "3",
    "7",
    "10**400",
    "-10**400",
    "2**63",
    "-2**63-1",
    "2**62",
    "2**31",
    "-65",
    "1.5",
    "0.5",
    "nan",
    "inf",
    "-inf",
    "-0.0",
    "1e308",
    "'x'",
    "'0'",
    "''",
    "b'ab'",
    "[]",
    "()",
    "(2,)",
    "[3, [1]]",
    "(None,)",
    "(1, 2)",
    "[0, 1, 2]",
    "(2, 2, 2)",
    "('a', 'b')",
    "{}",
    "{'a': 1}",
    "np.float32(3)",
    "np.int64(1)",
    "np.bool_(True)",
    "A((4,), 'float64')",
    "A((), 'int64')",
    "np.array(['a'], object)",
    "rg.float32",
    "rg.int64",
    "len",
    "slice(None)",
    "1j",
    "slot()",
    "range(3)",
    "object()",
    "rg.nn.Linear(3, 2)",
    "Ellipsis",
)
# name of a parameter: expressions for it
BY_NAME: dict[str, tuple[str, ...]] = {
    r"dim|axis|dim0|dim1|axis0|axis1|start_dim|end_dim|source|destination": (
        "0",
        "1",
        "-1",
        "-2",
        "2",
        "(0, 1)",
        "None",
    ),
    r"dims|size|shape|sizes|target_shape": ("(2, 3)", "(3, 2)", "(0,)", "3", "(1, 0)", "(0, 1)", "(-1,)", "(4,)"),
    r"keepdim|training|inplace|bias|batch_first|bidirectional|largest|sorted|accumulate|affine|swap|full|log_input|"
    r"unbiased|descending|return_\w+|ceil_mode|count_include_pad|align_corners|right|log_target|replacement": (
        "True",
        "False",
    ),
    r"dtype": ("rg.float32", "rg.float64", "rg.int64", "rg.bool", "None"),
    r"reduction": ("'mean'", "'sum'", "'none'"),
    r"reduce": ("'sum'", "'prod'", "'mean'", "'amax'", "'amin'"),
    r"kernel_size|r|upscale_factor|downscale_factor": ("1", "2", "3", "(2,)", "(2, 2)", "(2, 1, 2)"),
    r"stride|dilation|groups|output_size|num_groups": ("1", "2", "(1, 2)", "3", "(1,)"),
    r"padding|output_padding|pad": ("0", "1", "(1, 1)", "'same'", "(1, 2, 0, 1)"),
    r"mode": ("'nearest'", "'bilinear'", "'constant'", "'reflect'", "'linear'", "'sum'", "'fan_in'"),
    r"p|momentum|dropout|dropout_p|alpha|negative_slope|lr|eps|margin|beta|threshold|value|lambd|weight_decay|gamma|"
    r"label_smoothing|std|mean|gain|scale|low|high|a|b|tau|rate|probs|loc|concentration|temperature|step": (
        "0.5",
        "0.1",
        "1.0",
        "0",
        "1",
        "2",
        "0.9",
        "1e-3",
    ),
    r"n|num|steps|k|chunks|repeats|num_classes|bins|num_layers|count|diagonal|offset|length|start|end|order|depth|epochs|"
    r"step_size|max_iter|T_max|total_iters|num_samples|batch_size|num_parameters": ("1", "2", "3", "0", "5", "-1"),
    r"in_channels|num_features|in_features|input_size|embed_dim|d_model|num_channels|normalized_shape|channels": (
        "3",
        "4",
        "2",
        "(3,)",
    ),
    r"out_channels|out_features|hidden_size|embedding_dim|num_embeddings|nhead|num_heads": ("2", "4", "1", "3"),
    r"generator": ("None", "rg.Generator()"),
    r"module|model|conv|linear|bn|encoder_layer|decoder_layer|base|network": (
        "rg.nn.Linear(3, 2)",
        "rg.nn.Conv2d(3, 4, 3).eval()",
        "rg.nn.BatchNorm2d(4).eval()",
        "rg.nn.LSTM(3, 2)",
    ),
    r"func|function|fn|transform|transforms|callable|criterion|metric|distance_function|closure": (
        "(lambda x: x * 2)",
        "(lambda *x: x[0].sum())",
        "slot()",
        "[slot()]",
    ),
    r"params|parameters": ("[rg.nn.Parameter(T((3,)))]", "rg.nn.Linear(3, 2).parameters()"),
    r"optimizer": ("rg.optim.SGD([rg.nn.Parameter(T((3,)))], 0.1)",),
    r"name|tensor_name": ("'weight'", "'bias'", "'x'"),
    r"equation": ("'ij,jk->ik'", "'ij->ji'", "'ii'", "'...i,...i'"),
    r"dataset|data_source|sampler": ("[1, 2, 3]", "rg.data.TensorDataset(T((4, 2)))", "range(4)"),
    r"target|labels|index|indices|label": ("T((2,), 'int64', kind='ints')", "T((3,), 'int64', kind='ints')"),
    r"lengths|input_lengths|target_lengths|split_sizes": ("[2, 1]", "[1, 1, 1]", "T((2,), 'int64', kind='ones')"),
    r"tensors|sequences|inputs|arrays|matrices": ("[T((2, 3)), T((2, 3))]", "(T((3, 3)), T((3, 3)))", "[T((3,))]"),
    r"image|img|images|pic": ("A((8, 6, 3), 'uint8')", "T((3, 8, 6))", "T((4, 3, 8, 6))"),
}
TENSORS = re.compile(
    r"(input\d?|x\d?|y|other|self|tensor\d?|src|weight|a|b|mat\d?|vec\d?|batch\d|query|key|value|anchor|positive|negative|"
    r"mask|condition|running_\w+|theta|grid|A|B|L|U|target|permutation|hx|cx|h|values|boundaries|data|v|g)$"
)


def draw_call(target: Target, rng: random.Random) -> str:
    """The line of a call."""
    shape = rng.choice(SHAPES)
    oddness = rng.choice((0.0, 0.05, 0.15, 0.4))
    parameters = [p for p in target.signature.parameters.values() if p.name != "self"]
    subject = ""
    if target.kind == "method":
        subject, parameters = (
            _tensor(shape, rng),
            parameters[1:] if "self" not in target.signature.parameters else parameters,
        )
    arguments = _arguments(parameters, shape, oddness, rng)
    if target.kind == "method":
        return f"{subject}.{target.name}({arguments})"
    call = f"{target.code}({arguments})"
    if target.kind == "layer":
        ndim = re.search(r"(\d)d$", target.code)
        if ndim and rng.random() < 0.8:
            shape = (2, rng.choice((2, 3, 4)), *(5,) * int(ndim[1]))
        call += f"({_tensor(shape, rng) if rng.random() < 0.9 else rng.choice(ODD)})"
    elif target.code.startswith("rg.distributions.") and rng.random() < 0.5:
        call += rng.choice((".sample()", ".log_prob(T((2,)))", ".rsample((2,))", ".entropy()"))
    elif target.code.startswith("rg.data.transforms.") and rng.random() < 0.8:
        call += f"({rng.choice(BY_NAME['image|img|images|pic'])})"
    return call


def _arguments(parameters: list[inspect.Parameter], shape: tuple[int, ...], oddness: float, rng: random.Random) -> str:
    words: list[str] = []
    by_name = False
    for p in parameters:
        required = p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if p.kind is p.VAR_KEYWORD:
            if rng.random() < 0.05:
                words.append(f"{rng.choice(('device', 'out', 'axis', 'pad', 'foo'))}={_value(p, shape, oddness, rng)}")
            continue
        if p.kind is p.VAR_POSITIONAL:
            words += [_value(p, shape, oddness, rng) for _ in range(rng.choice((0, 1, 1, 2)))] if not by_name else []
            by_name = True
            continue
        if (required and rng.random() < 0.98) or (not required and rng.random() < 0.3):
            named = by_name or p.kind is p.KEYWORD_ONLY or (not required and rng.random() < 0.5)
            if p.kind is p.POSITIONAL_ONLY:
                named = False
            words.append(f"{p.name}={_value(p, shape, oddness, rng)}" if named else _value(p, shape, oddness, rng))
            by_name = by_name or named
        elif not required:
            by_name = True
    if rng.random() < 0.01:
        words.append(f"{rng.choice(('pad', 'axis', 'names', 'dilatiox'))}=1")
    return ", ".join(words)


def _value(p: inspect.Parameter, shape: tuple[int, ...], oddness: float, rng: random.Random) -> str:
    if rng.random() < oddness:
        return rng.choice(ODD) if rng.random() < 0.7 else _tensor(rng.choice(SHAPES), rng, any_type=True)
    annotation = str(p.annotation)
    if TENSORS.match(p.name) and not re.fullmatch("int|float|bool|str", annotation) and rng.random() < 0.9:
        related = shape if rng.random() < 0.7 else rng.choice(SHAPES)
        if p.name in ("index", "indices") or (p.name == "target" and rng.random() < 0.5):
            return f"T({related}, 'int64', kind='ints')"
        return _tensor(related, rng)
    for names, values in BY_NAME.items():
        if re.fullmatch(names, p.name):
            return rng.choice(values)
    if "bool" in annotation:
        return rng.choice(("True", "False"))
    if "int" in annotation:
        return rng.choice(("1", "2", "3", "0"))
    if "float" in annotation:
        return rng.choice(("0.5", "1.0", "2", "0.0"))
    if "str" in annotation:
        return rng.choice(("'mean'", "'x'", "'relu'"))
    if p.default is not p.empty and p.default is not None and rng.random() < 0.5:
        default: Any = p.default
        return repr(default) if isinstance(default, (int, float, str, bool, tuple)) else "None"
    return _tensor(shape, rng) if rng.random() < 0.7 else rng.choice(ODD)


def _tensor(shape: tuple[int, ...], rng: random.Random, any_type: bool = False) -> str:
    dtype = rng.choice(DTYPES if any_type or rng.random() < 0.15 else FLOATS)
    words = [str(shape), repr(dtype), f"seed={rng.randrange(100)}"]
    kind = rng.choices(("normal", "zeros", "ones", "ints", "special"), (8, 1, 1, 1, 1))[0]
    if kind != "normal":
        words.append(f"kind={kind!r}")
    if dtype in FLOATS and rng.random() < 0.4:
        words.append("grad=True")
    layout = rng.choices(("plain", "transposed", "every second", "clone"), (7, 1, 1, 1))[0]
    if layout != "plain":
        words.append(f"layout={layout!r}")
    return f"T({', '.join(words)})"
