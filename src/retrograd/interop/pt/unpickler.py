"""A pickle reader that executes nothing.

A pickle is a program for a stack machine. This machine makes numbers, strings and containers. A global is only a name,
and the meaning of a call or a state is looked up in the tables of ``allowed_globals.py``. A file can therefore only
request what these tables contain.

Source of the operations: Lib/pickletools.py of Python.
"""

from __future__ import annotations

import codecs
import struct
import warnings
from collections import OrderedDict
from collections.abc import Callable
from mmap import mmap
from typing import Any

import numpy as np

from ..._files.state import brief
from ...engine.tensor import Tensor
from .allowed_globals import CALLS, name_of
from .objects import MOST_INT, Name, Pending, Refused, checked_key, checked_object, entry

__all__ = ["Machine"]

_MOST_LINE = 65536
_Persistent = Callable[[Any], Any]


class Machine:
    """Reads one pickle in ``content`` from ``start``; ``run`` returns its value, and ``place`` is then behind its end.

    persistent: resolves a persistent id. encoding: of the 8-bit strings of Python 2, or "bytes".
    budget: the most bytes that calls may copy, since a short pickle can request the same large copy repeatedly.
    """

    content: bytes | mmap
    encoding: str
    place: int
    budget: int
    persistent: Callable[[Any], Any]

    def __init__(self, content: bytes | mmap, start: int, persistent: _Persistent, encoding: str, budget: int) -> None:
        self.content, self.place, self.budget = content, start, budget
        self.persistent, self.encoding = persistent, encoding
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stacks below the marks
        self.memo: dict[int, Any] = {}

    def whole(self) -> Any:
        """Return the value of the pickle.

        Raises:
            Refused: the pickle is damaged or contains something unsupported; the message has the location in the
                object.
        """
        try:
            value = self._run()
        except Refused as refusal:
            place = self.where()
            raise Refused(f"{refusal}; it is in {place}" if place != "obj" else str(refusal)) from refusal.__cause__
        return checked_object(value)

    def _run(self) -> Any:
        while True:
            at = self.place
            code = self.take(1)[0]
            if code == 0x2E:  # STOP
                if self.below or len(self.stack) != 1:
                    raise Refused(f"its pickle is damaged: {len(self.stack)} values are left at its end, byte {at}")
                return self.stack[0]
            operation = _OPERATIONS.get(code)
            if operation is None:
                raise Refused(f"its pickle is damaged at byte {at}: {code:#04x} is not a supported operation")
            try:
                operation(self)
            except Refused:
                raise
            except (IndexError, ValueError, TypeError, struct.error, OverflowError, UnicodeError) as error:
                why = "too few values" if isinstance(error, IndexError) else brief(str(error))
                raise Refused(f"its pickle is damaged at byte {at}: {why}") from error

    # ---- Bytes ------------------------------------------------------------------------------------------------------

    def take(self, count: int) -> bytes:
        start, end = self.place, self.place + count
        if end > len(self.content):
            raise Refused(
                f"its pickle was cut off: it asks for {count:,} bytes at {start}, there are "
                f"{len(self.content) - start:,}"
            )
        self.place = end
        return self.content[start:end]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> bytes:
        end = self.content.find(b"\n", self.place, self.place + _MOST_LINE)
        if end < 0:
            raise Refused(f"its pickle is damaged: the line at byte {self.place} does not end")
        return self.take(end + 1 - self.place)[:-1]

    # ---- The stack --------------------------------------------------------------------------------------------------

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def above_mark(self) -> list[Any]:
        items = self.stack
        self.stack = self.below.pop()
        return items

    def top(self, kind: type, what: str) -> Any:
        value = self.stack[-1]
        if not isinstance(value, kind):
            raise Refused(f"its pickle is damaged: it adds {what} to {type(value).__name__}")
        return value

    def set_items(self, items: list[Any]) -> None:
        holder = self.top(dict, "entries")
        if len(items) % 2:
            raise Refused("its pickle is damaged: a key has no value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            holder[checked_key(key)] = value

    def put(self, key: int) -> None:
        value = self.stack[-1]
        self.memo[key] = value
        if type(value) is Pending:
            value.keys.append(key)

    def get(self, key: int) -> None:
        if key not in self.memo:
            raise Refused(f"its pickle is damaged: it refers to its value {key}, which does not exist")
        self.push(self.memo[key])

    def call(self, function: Any, args: Any) -> Any:
        if type(function) is not Name or type(args) is not tuple:
            raise Refused(f"its pickle calls {type(function).__name__}")
        meaning = CALLS.get(function.text)
        if meaning is None:
            raise Refused(f"it calls {function.text}, which is not read")
        self.charge(args)
        return meaning(*args)

    def charge(self, values: Any) -> None:
        """Refuse to copy more than the file size justifies."""
        for value in values if isinstance(values, tuple) else (values,):
            if isinstance(value, (list, tuple, dict)):
                self.budget -= 100 * len(value)
                if isinstance(value, tuple):  # the state of an array; the arguments of a tensor with attributes
                    self.budget -= sum(map(_copied, value[:8]))
            else:
                self.budget -= _copied(value)
        if self.budget < 0:
            raise Refused("its pickle copies the same values again and again")

    def reduce(self) -> None:
        args = self.stack.pop()
        self.stack[-1] = self.call(self.stack[-1], args)

    def new(self) -> None:
        args = self.stack.pop()
        self.stack[-1] = self.call(self.stack[-1], args)

    def new_ex(self) -> None:
        if self.stack.pop():
            raise Refused("its pickle makes an object with keyword arguments, which is not read")
        self.new()

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is Pending:
            self.charge(state)
            made = target.build(state)
            self.stack[-1] = made
            for key in target.keys:
                self.memo[key] = made
        elif not isinstance(target, dict) or not isinstance(state, dict):
            raise Refused(f"its pickle sets the state of {type(target).__name__}, which is not read")
        elif type(target) is OrderedDict and isinstance(state.get("_metadata"), dict):
            target._metadata = state["_metadata"]  # type: ignore[attr-defined]  # versions of a state_dict's modules

    def where(self) -> str:
        """Return the location of the value under construction, as far as the stack shows it: obj['model'][3]."""
        place = "obj"
        levels = [*self.below, self.stack]
        for number, items in enumerate(levels):
            first = _begun(items, number + 1 == len(levels))
            holder = levels[number - 1][-1] if number and levels[number - 1] else None
            if isinstance(holder, list):
                place = entry(place, len(holder) + first)
            elif isinstance(holder, dict) and first % 2:
                place = entry(place, items[first - 1])
            for item, following in zip(items[first:], items[first + 1 :], strict=False):
                if isinstance(item, dict):
                    place = entry(place, following)
        return place


def _copied(value: Any) -> int:
    """Return the bytes that a call may copy for an argument."""
    array = value.array if isinstance(value, Tensor) else value
    if isinstance(array, np.ndarray):
        return 0 if array.flags.writeable and array.dtype in (np.float32, np.float64) else 8 * array.size
    return len(value) if isinstance(value, (str, bytes, bytearray)) else 0


def _begun(items: list[Any], last: bool) -> int:
    """Return the stack position of the first value under construction: a dict with a pending key and what follows."""
    first = len(items) if last else len(items) - 1
    while first >= 2 and isinstance(items[first - 2], dict) and type(items[first - 1]) in (str, int):
        first -= 2
    return max(first, 0)


def _string(machine: Machine, data: bytes) -> None:
    machine.push(data if machine.encoding == "bytes" else data.decode(machine.encoding))


def _quoted(machine: Machine) -> None:
    text = machine.line().strip()
    if len(text) < 2 or text[:1] not in (b'"', b"'") or text[-1:] != text[:1]:
        raise ValueError("a string without quotes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a backslash before a letter without an escape meaning is itself
        data = codecs.escape_decode(text[1:-1])[0]
    _string(machine, data)


def _integer(data: bytes) -> int:
    if len(data) > MOST_INT:
        raise ValueError(f"an integer of {len(data):,} bytes; at most {MOST_INT} are read")
    return int.from_bytes(data, "little", signed=True)


def _text_int(machine: Machine) -> None:
    text = machine.line()
    if len(text) > MOST_INT:
        raise ValueError(f"an integer of {len(text):,} digits; at most {MOST_INT} are read")
    machine.push({b"00": False, b"01": True}[text] if text in (b"00", b"01") else int(text.rstrip(b"L")))


def _put_text(machine: Machine) -> None:
    machine.put(int(machine.line()[:20]))


def _get_text(machine: Machine) -> None:
    machine.get(int(machine.line()[:20]))


def _mark(machine: Machine) -> None:
    machine.below.append(machine.stack)
    machine.stack = []


def _pop(machine: Machine) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.above_mark()


def _tuple(count: int) -> Callable[[Machine], None]:
    def operation(machine: Machine) -> None:
        if len(machine.stack) < count:
            raise IndexError
        machine.stack[-count:] = [tuple(machine.stack[-count:])]

    return operation


def _append(machine: Machine) -> None:
    value = machine.stack.pop()
    machine.top(list, "items").append(value)


def _appends(machine: Machine) -> None:
    items = machine.above_mark()
    machine.top(list, "items").extend(items)


def _set_item(machine: Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.set_items([key, value])


def _set_items(machine: Machine) -> None:
    machine.set_items(machine.above_mark())


def _add_items(machine: Machine) -> None:
    items = machine.above_mark()
    machine.top(set, "items").update(map(checked_key, items))


def _dict(machine: Machine) -> None:
    items = machine.above_mark()
    machine.push({})
    machine.set_items(items)


def _global(machine: Machine) -> None:
    module, name = (machine.line().decode("utf-8") for _ in range(2))
    machine.push(name_of(module, name))


def _stack_global(machine: Machine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise Refused("its pickle requests a global whose name is not a string")
    machine.push(name_of(module, name))


def _instance(machine: Machine) -> None:
    """Handle an instance of a Python 2 class: always refused, and named if unknown."""
    module, name = (machine.line().decode("utf-8") for _ in range(2))
    name_of(module, name)
    raise Refused(f"it makes an instance of {module}.{name}, which is not read")


def _refuse(what: str) -> Callable[[Machine], None]:
    def operation(machine: Machine) -> None:
        raise Refused(f"its pickle uses {what}, which is not read")

    return operation


def _persistent(machine: Machine) -> None:
    machine.push(machine.persistent(machine.stack.pop()))


def _protocol(machine: Machine) -> None:
    version = machine.take(1)[0]
    if version > 5:
        raise Refused(f"its pickle has protocol {version}; those up to 5 are read")


def _value(value: Any) -> Callable[[Machine], None]:
    return lambda machine: machine.push(value)


_OPERATIONS: dict[int, Callable[[Machine], Any]] = {
    ord(code): operation
    for code, operation in {
        "\x80": _protocol,
        "\x95": lambda m: m.take(8),  # FRAME
        "(": _mark,
        "0": _pop,
        "1": Machine.above_mark,
        "2": lambda m: m.push(m.stack[-1]),
        "N": _value(None),
        "\x88": _value(True),
        "\x89": _value(False),
        "I": _text_int,
        "L": _text_int,
        "J": lambda m: m.push(m.number("<i")),
        "K": lambda m: m.push(m.number("<B")),
        "M": lambda m: m.push(m.number("<H")),
        "\x8a": lambda m: m.push(_integer(m.take(m.number("<B")))),
        "\x8b": lambda m: m.push(_integer(m.take(m.number("<I")))),
        "F": lambda m: m.push(float(m.line())),
        "G": lambda m: m.push(m.number(">d")),
        "S": _quoted,
        "T": lambda m: _string(m, m.take(m.number("<I"))),
        "U": lambda m: _string(m, m.take(m.number("<B"))),
        "V": lambda m: m.push(m.line().decode("raw-unicode-escape")),
        "X": lambda m: m.push(str(m.take(m.number("<I")), "utf-8", "surrogatepass")),
        "\x8c": lambda m: m.push(str(m.take(m.number("<B")), "utf-8", "surrogatepass")),
        "\x8d": lambda m: m.push(str(m.take(m.number("<Q")), "utf-8", "surrogatepass")),
        "B": lambda m: m.push(m.take(m.number("<I"))),
        "C": lambda m: m.push(m.take(m.number("<B"))),
        "\x8e": lambda m: m.push(m.take(m.number("<Q"))),
        "\x96": lambda m: m.push(bytearray(m.take(m.number("<Q")))),
        ")": lambda m: m.push(()),
        "t": lambda m: m.push(tuple(m.above_mark())),
        "\x85": _tuple(1),
        "\x86": _tuple(2),
        "\x87": _tuple(3),
        "]": lambda m: m.push([]),
        "l": lambda m: m.push(m.above_mark()),
        "a": _append,
        "e": _appends,
        "}": lambda m: m.push({}),
        "d": _dict,
        "s": _set_item,
        "u": _set_items,
        "\x8f": lambda m: m.push(set()),
        "\x90": _add_items,
        "\x91": lambda m: m.push(frozenset(map(checked_key, m.above_mark()))),
        "p": _put_text,
        "q": lambda m: m.put(m.number("<B")),
        "r": lambda m: m.put(m.number("<I")),
        "\x94": lambda m: m.put(len(m.memo)),
        "g": _get_text,
        "h": lambda m: m.get(m.number("<B")),
        "j": lambda m: m.get(m.number("<I")),
        "c": _global,
        "\x93": _stack_global,
        "i": _instance,
        "o": _refuse("the operation OBJ, a call of a class"),
        "R": Machine.reduce,
        "\x81": Machine.new,
        "\x92": Machine.new_ex,
        "b": Machine.build,
        "Q": _persistent,
        "P": _refuse("a persistent id in text"),
        "\x82": _refuse("copyreg's extensions"),
        "\x83": _refuse("copyreg's extensions"),
        "\x84": _refuse("copyreg's extensions"),
        "\x97": _refuse("a buffer outside of it"),
        "\x98": _refuse("a buffer outside of it"),
    }.items()
}
