"""Call signatures: errors for arguments that do not fit, `out=`, NumPy argument names, deprecated overloads."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

from ..engine.call_site import warn_user
from ..engine.inplace import call_with_out
from ..engine.tensor import Tensor
from .direct import calls_direct, direct_of

__all__ = ["explain_wrong_arguments", "advised", "require_bound", "suggestion", "with_direct_forms"]


# ---- TypeErrors for arguments that do not match a signature ----------------------------------------------------------

_F = TypeVar("_F", bound=Callable[..., Any])

# other libraries' keywords -> PyTorch's names; the first that is a parameter of the function is suggested
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "pad": ("padding",),
    "dilate": ("dilation",),
    "dilation_rate": ("dilation",),
    "data": ("input",),
    "kernel": ("kernel_size",),
    "pool_size": ("kernel_size",),
    "kernel_shape": ("kernel_size",),
    "filters": ("out_channels",),
    "num_filter": ("out_channels",),
    "out_ch": ("out_channels",),
    "channels": ("out_channels", "num_features"),
    "in_channels": ("num_features",),
    "in_units": ("in_features",),
    "num_group": ("groups",),
    "units": ("out_features", "hidden_size"),
    "num_hidden": ("out_features", "hidden_size", "state_size"),
    "n_out": ("out_features", "hidden_size"),
    "state_size": ("hidden_size",),
    "hidden_size": ("state_size",),
    "projection_size": ("proj_size",),
    "use_sequence_length": ("lengths",),
    **dict.fromkeys(("lstm_state_clip_min", "lstm_state_clip_max", "lstm_state_clip_nan"), ("clip",)),
    "activation": ("nonlinearity",),
    "act_fn": ("activation", "nonlinearity"),
    "input_dim": ("num_embeddings",),
    "output_dim": ("embedding_dim",),
    "use_bias": ("bias",),
    "epsilon": ("eps",),
    "axis": ("dim", "dims", "normalized_shape"),
    "dim": ("axis", "dims"),
    "keepdims": ("keepdim",),
    "rate": ("p", "dropout"),
    "p": ("dropout",),
    "drop_prob": ("p",),
    "learning_rate": ("lr",),
    "beta1": ("betas",),
    "beta2": ("betas",),
    "l2": ("weight_decay",),
    "wd": ("weight_decay",),
    "decay": ("weight_decay", "gamma"),
    "factor": ("gamma",),
    "step": ("step_size",),
    "layers": ("num_layers",),
    "heads": ("num_heads", "nhead"),
    "ff_dim": ("dim_feedforward",),
    "vocab_size": ("num_embeddings",),
    "alpha": ("negative_slope",),
    "in_place": ("inplace",),
    "shuffled": ("shuffle",),
    "workers": ("num_workers",),
    "criterion": ("loss",),
    "loss_fn": ("loss",),
    "path": ("f",),
    "file": ("f",),
    "mode": ("interpolation",),
    **dict.fromkeys(("validation", "validation_data", "validation_split", "val_data", "test"), ("held_out",)),
}
_LAYOUT = "channels come before positions here: (N, C, H, W); write x.permute(0, 3, 1, 2) for an input of (N, H, W, C)"
_INITIAL = "initialize afterwards, as in nn.init.xavier_uniform_(layer.weight)"
_NAMED = "leave it out; a layer has the name of the attribute that it is assigned to"
_TUNED = "the algorithm follows from the shapes; algorithm= sets one, and nn.functional.conv_plan prints it"
# keyword -> advice where the function has no parameter of that meaning, or one of the opposite meaning
_ADVICE = {
    "layout": _LAYOUT,
    "data_format": _LAYOUT,
    "no_bias": "write bias=False for no_bias=True",
    "num_filter": "leave it out; the weight has the number of filters",
    "kernel": "leave it out; the weight has the extents of the kernel",
    "cudnn_tune": _TUNED,
    "cudnn_off": _TUNED,
    "fix_gamma": "set weight to 1 and layer.weight.requires_grad_(False) for fix_gamma=True",
    "pooling_convention": 'write ceil_mode=True for "full"',
    "global_pool": "write nn.AdaptiveMaxPool2d(1) or nn.AdaptiveAvgPool2d(1)",
    "flatten": "the last axis is transformed; put nn.Flatten() before the layer for flatten=True",
    "clip_gradient": "call nn.utils.clip_grad_value_(model.parameters(), clip) before step()",
    "rescale_grad": "losses average over the batch, so the gradient needs no scale",
    "ctx": "leave it out; there is one device, the CPU",
    "name": _NAMED,
    "prefix": _NAMED,
    **dict.fromkeys(("init", "weight_initializer", "bias_initializer"), _INITIAL),
    "optimizer": "it is an object of its own: optim.Adam(model.parameters(), lr=0.001)",
    "lr": "the learning rate belongs to the optimizer: optimizer=optim.Adam(model.parameters(), lr=0.001)",
    "activation": "write it as a layer of its own: nn.Sequential(layer, nn.ReLU())",
    "input_shape": "leave it out; a layer is given its number of inputs",
}


def require_bound(name: str, signature: inspect.Signature, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
    """Raise a TypeError that names the function and the argument, unless the arguments match the signature."""
    try:
        signature.bind(*args, **given)
    except TypeError as error:
        raise TypeError(f"{name}() {_problem(signature, args, given) or error}") from None


def _problem(signature: inspect.Signature, args: tuple[Any, ...], given: Mapping[str, Any]) -> str:
    """Return a message for a call that does not match the signature, or "" if ``inspect``'s own message is clear."""
    parameters = signature.parameters.values()
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    unknown = [key for key in given if key not in signature.parameters]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        return f"got an unexpected keyword argument {unknown[0]!r}{suggestion(unknown[0], signature.parameters)}"
    if len(args) > len(by_place) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        least = sum(p.default is p.empty for p in by_place)
        allowed = f"{least} to {len(by_place)}" if least < len(by_place) else str(least)
        return f"takes {allowed} positional arguments, got {len(args)}"
    twice = [p.name for p in by_place[: len(args)] if p.name in given]
    if twice:
        order = ", ".join(p.name for p in by_place[: len(args) + 1])
        return f"got multiple values for argument {twice[0]!r}; the order is {order}"
    required = [p.name for p in by_place if p.default is p.empty]
    lacking = [name for name in required[len(args) :] if name not in given]
    if lacking and len(required) > 1:
        return f"missing a required argument: {lacking[0]!r}; it takes {', '.join(required)}"
    return ""


def suggestion(keyword: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown keyword: a parameter that is probably meant, or other advice."""
    names = list(names)
    if keyword == "layout" and "batch_first" in names:
        return '; sequences are (T, N, features), as "TNC"; write batch_first=True for "NTC"'
    for name in _SYNONYMS.get(keyword, ()):
        if name in names:
            return f"; did you mean {name!r}?"
    if keyword in _ADVICE:
        return f"; {_ADVICE[keyword]}"
    import difflib  # only for this message

    close = difflib.get_close_matches(keyword, names, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def advised(function: _F) -> _F:
    """Decorate a function so that TypeErrors for wrong arguments suggest the right names; see ``require_bound``.

    If it has a direct form, that is called first.
    """
    direct: Any = direct_of(function)

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if direct is not None and (found := direct(*args, **given)) is not NotImplemented:
            return found
        try:
            return function(*args, **given)
        except TypeError:
            require_bound(function.__name__, inspect.signature(function), args, given)
            raise

    calls_direct(call, direct)
    call.has_forms = True  # type: ignore[attr-defined]
    return cast(_F, call)


def explain_wrong_arguments(classes: Iterable[Any]) -> None:
    """Let the constructors of classes suggest the right names for wrong arguments; see ``require_bound``.

    Layers do this by themselves; whatever is not a class is ignored.
    """
    package = __name__.partition(".")[0]
    for each in classes:
        if not isinstance(each, type) or hasattr(each, "register_module"):
            continue
        for cls in each.__mro__:
            init = vars(cls).get("__init__")
            own = cls.__module__.partition(".")[0] == package
            if own and isinstance(init, FunctionType) and not hasattr(init, "__wrapped__"):
                setattr(cls, "__init__", _advised_constructor(cls, init))  # noqa: B010  mypy refuses the assignment


def _advised_constructor(cls: type, init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def initialize(self: Any, *args: Any, **given: Any) -> None:
        try:
            init(self, *args, **given)
        except TypeError:
            name = type(self).__name__ if type(self).__init__ is initialize else cls.__name__
            parameters = list(inspect.signature(init).parameters.values())[1:]
            require_bound(name, inspect.Signature(parameters), args, given)
            raise

    return initialize


# ---- Alternative call forms: `out=`, NumPy's names, deprecated overloads ---------------------------------------------

_operators: dict[Any, Any] = {}  # a form that only calls the direct one first -> the operator
_NAMES = {"axis": "dim", "keepdims": "keepdim"}  # NumPy's name -> PyTorch's

# for each of PyTorch's namespaces, the operators that accept ``out=``
OUT = {
    namespace: frozenset(names.split())
    for namespace, names in {
        "": """
            abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all amax amin aminmax any arange
            arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort asin asinh atan atan2 atanh
            baddbmm bernoulli bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
            bmm bucketize cat ceil chain_matmul cholesky cholesky_inverse cholesky_solve clamp clamp_max clamp_min
            clip column_stack concat concatenate conj_physical copysign cos cosh cross cummax cummin cumprod cumsum
            deg2rad diag diff digamma div divide dot dstack empty eq erf erfc erfinv exp exp2 expm1 eye fix
            float_power floor floor_divide fmax fmin fmod frac frexp full gather gcd ge geqrf ger greater
            greater_equal gt hardshrink heaviside histc histogram hstack hypot i0 igamma igammac index_add
            index_copy index_reduce index_select inner inverse isin isneginf isposinf kron kthvalue lcm ldexp le
            lerp less less_equal lgamma linspace log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp
            logical_and logical_not logical_or logical_xor logit logspace logsumexp lt lu lu_solve lu_unpack
            masked_select matmul matrix_power max maximum mean median min minimum mm mode msort mul multinomial
            multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum ne neg negative nextafter nonzero
            norm normal not_equal ones orgqr ormqr outer polygamma pow prod qr quantile rad2deg rand randint randn
            randperm range reciprocal remainder renorm round row_stack rsqrt scatter scatter_add scatter_reduce
            searchsorted sgn sigmoid sign signbit sin sinc sinh slice_scatter slogdet softmax sort spmm sqrt square
            stack std sub subtract sum svd take take_along_dim tan tanh tensordot threshold topk triangular_solve
            tril triu true_divide trunc var vdot vstack where xlogy zeros
        """,
        "fft": """
            fft fft2 fftfreq fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft
            rfft2 rfftfreq rfftn
        """,
        "linalg": """
            cholesky cholesky_ex cond cross det eigh eigvalsh householder_product inv inv_ex ldl_factor
            ldl_factor_ex ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve matmul matrix_norm matrix_power
            matrix_rank multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd svdvals tensorinv
            tensorsolve vecdot vector_norm
        """,
        "special": """
            digamma entr erf erfc erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 i0e i1 i1e log1p log_ndtr
            logit logsumexp modified_bessel_i0 modified_bessel_i1 multigammaln ndtr ndtri polygamma psi round sinc
            xlog1py xlogy zeta
        """,
    }.items()
}


def add_forms(namespace: dict[str, Any], name: str = "") -> None:
    """Let the operators in one of PyTorch's namespaces accept ``out``, ``axis`` and ``keepdims`` as they do there.

    name: the namespace, such as "linalg"; its functions are replaced by ones that accept more arguments.
    """
    for key, value in list(namespace.items()):
        if isinstance(value, FunctionType) and hasattr(value, "operator") and not key.startswith("_"):
            namespace[key] = made = with_out(value, key, name) if key in OUT[name] else with_numpy_names(value)
            if made is not value and key == value.__name__:  # no other name of the same object
                _name(made, f"retrograd.{name}".rstrip("."), key)


def with_direct_forms(namespace: dict[str, Any]) -> None:
    """Let the operators in a namespace call their direct forms first."""
    for key, value in list(namespace.items()):
        if isinstance(value, FunctionType) and not hasattr(value, "has_forms"):
            namespace[key] = made = _with_direct_form(value)
            if made is not value:
                _name(made, namespace["__name__"], key)


def _name(made: Any, module: str, key: str) -> None:
    """Say where pickle finds a function."""
    made.__module__, made.__qualname__ = module, key


@functools.cache
def _with_direct_form(function: Any) -> Any:
    """Let a function call its direct form first; unchanged if it has none."""
    made = _with_same_parameters(function, False) if function not in _operators and direct_of(function) else None
    if made is None:
        return function
    _operators[made] = function
    return made


@functools.cache
def with_numpy_names(function: Any) -> Any:
    """Let a function accept ``axis`` for ``dim`` and ``keepdims`` for ``keepdim``; unchanged if it has neither.

    With or without them, a direct form is called first.
    """
    function = _operators.get(function, function)
    if hasattr(function, "has_forms"):
        return function
    if names := _other_names(function):
        return _with_other_names(function, names, False)
    return _with_direct_form(function)


@functools.cache
def with_out(function: Any, key: str, name: str = "") -> Any:
    """Let a function accept ``out`` if PyTorch's ``key`` in the namespace ``name`` does; unchanged otherwise."""
    if key not in OUT[name] or hasattr(function, "has_forms"):
        return function
    function = _operators.get(function, function)
    names = _other_names(function)
    made = (None if names else _with_same_parameters(function, True)) or _with_other_names(function, names, True)
    _name(made, f"retrograd.{name}".rstrip("."), key)
    return made


def _other_names(function: Any) -> dict[str, str]:
    """Return NumPy's names of a function's parameters."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return {}
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]  # faster than inspect.signature
    return {other: name for other, name in _NAMES.items() if name in parameters and other not in parameters}


def _with_other_names(function: Any, names: dict[str, str], out: bool) -> Any:
    """Return the function extended by other parameter names and, if ``out``, by ``out``."""
    direct: Any = direct_of(function)

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if direct is not None and (found := direct(*args, **given)) is not NotImplemented:
            return found
        if given:
            for other, name in names.items():
                if other in given:
                    if name in given:
                        raise TypeError(f"{function.__name__}: {other} and {name} are the same argument; give it once")
                    given[name] = given.pop(other)
            if out and (result := given.pop("out", None)) is not None:
                return call_with_out(call, result, args, given)
        try:
            return function(*args, **given)
        except TypeError:
            require_bound(function.__name__, inspect.signature(function), args, given)
            raise

    calls_direct(call, direct)
    call.has_forms = True  # type: ignore[attr-defined]
    return call


def _unready(function: Any, direct: Any, defaults: Any, call_with_out: Any, ready: Any) -> Any:
    """Return a form that gets its own code at the first call: no code is generated at import."""

    def call(*args: Any, **given: Any) -> Any:
        if ready is None:  # never; but the code that replaces this needs the same variables
            return function, direct, defaults, call_with_out
        return ready()(*args, **given)

    return call


@functools.cache
def _code(places: int, named: int, rest: bool, out: bool, direct: bool) -> CodeType:
    """Return the code of forms with so many positional and keyword-only parameters, and ``*rest`` or not.

    A call takes a third of the time of a call through ``*args``.
    """
    by_place = [f"p{at}" for at in range(places)]
    by_name = [f"p{at}" for at in range(places, places + named)]
    named_too = [f"{name}={name}" for name in by_name]
    parameters = [
        *by_place,
        *(["*rest"] if rest else ["*"] if named or out else []),
        *by_name,
        *(["out"] if out else []),
    ]
    given = ", ".join([*by_place, *(["*rest"] if rest else []), *named_too])
    variables = ", ".join(inspect.signature(_unready).parameters)
    lines = [f"def make({variables}):\n def call({', '.join(parameters)}):\n  if 0: {variables}"]
    if out:
        pairs = ", ".join([f"'{name}': {name}" for name in by_name])
        args = ", ".join([*by_place, *(["*rest"] if rest else []), ""])
        lines.append(f"  if out is not None: return call_with_out(function, out, ({args}), {{{pairs}}})")
    if direct:
        usual = ["not rest"] * rest + [f"{name} is defaults[{at}]" for at, name in enumerate(by_name)]
        condition = "".join([f"{each} and " for each in usual])
        lines.append(f"  if {condition}(found := direct({', '.join(by_place)})) is not NotImplemented: return found")
    if rest:
        lines.append(f"  if not rest: return function({', '.join([*by_place, *named_too])})")
    lines.append(f"  return function({given})")
    found = compile("\n".join(lines), __file__, "exec")
    for _ in ("make", "call"):
        found = next(each for each in found.co_consts if isinstance(each, CodeType))
    return found


def _with_same_parameters(function: Any, out: bool) -> Any:
    """Return a function with the same parameters, and ``out`` if asked for; None if it has ``**others``."""
    code = function.__code__
    rest = bool(code.co_flags & inspect.CO_VARARGS)
    if code.co_posonlyargcount or code.co_flags & inspect.CO_VARKEYWORDS or (rest and not out):
        return None
    direct, places, named = direct_of(function), code.co_argcount, code.co_kwonlyargcount
    defaults = function.__kwdefaults__ or {}
    names = code.co_varnames[: places + named]

    def ready() -> Any:
        common = _code(places, named, rest, out, direct is not None)
        # constants that name arguments
        others: dict[Any, Any] = {f"p{at}": name for at, name in enumerate(names)}
        others |= {tuple([f"p{at}" for at in range(places, places + named)]): names[places:]}
        made.__code__ = common.replace(
            co_name=code.co_name,
            co_varnames=(*names, *common.co_varnames[len(names) :]),
            co_consts=tuple([others.get(each, each) for each in common.co_consts]),
        )
        return made

    by_name = tuple([defaults.get(name, direct) for name in names[places:]])
    made = _unready(function, direct, by_name, call_with_out, ready)
    made.__defaults__ = function.__defaults__
    if out or defaults:
        made.__kwdefaults__ = {**defaults, **({"out": None} if out else {})}
    functools.update_wrapper(made, function)
    calls_direct(made, direct)
    if out:
        made.has_forms = True
    return made


def scaled_last(name: str, factor: Any, rest: tuple[Any, ...], given: float, count: int = 1) -> tuple[Any, ...]:
    """Return the operands and factor of the deprecated ``add(x, alpha, other)`` or ``addcmul(x, value, t1, t2)``.

    rest: the ``count`` operands after the factor. given: the factor passed by name, which must then be 1.

    Raises:
        TypeError: the arguments do not have that form.
    """
    if isinstance(factor, Tensor) or given != 1 or len(rest) != count:
        raise TypeError(f"{name}: takes {1 + count} operands, and its factor by name; got {2 + len(rest)} arguments")
    _warn(name, "the factor by name, after the tensors")
    return (*rest, factor)


def factors_and_operands(
    name: str, operands: tuple[Any, ...], beta: float, alpha: float
) -> tuple[Tensor, Tensor, Tensor, float, float]:
    """Return the operands, beta and alpha of ``addmm(beta, x, alpha, a, b)`` or ``x.addmm(beta, alpha, a, b)``.

    alpha may be missing.

    Raises:
        TypeError: there are not three tensors with one or two numbers before the last two.
    """
    tensors = [value for value in operands if isinstance(value, Tensor)]
    numbers = [value for value in operands if not isinstance(value, Tensor)]
    if len(tensors) != 3 or len(numbers) > 2 or operands[-2:] != (*tensors[1:],) or (beta, alpha) != (1, 1):
        raise TypeError(f"{name}: takes three Tensors, beta and alpha by name; got {len(operands)} arguments")
    _warn(name, "beta and alpha by name, after the tensors")
    x, a, b = tensors
    return x, a, b, numbers[0], numbers[1] if len(numbers) == 2 else 1


def _warn(name: str, form: str) -> None:
    warn_user(f"This overload of {name} is deprecated; give {form}")
