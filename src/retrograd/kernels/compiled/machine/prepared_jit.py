# mypy: ignore-errors
"""Prepared functions in machine code: found by layouts and options, they allocate their results and launch kernels.

``prepared`` takes arrays and is a kernel; ``operation`` takes tensors and is an operator.
"""

from __future__ import annotations

from numba import types

from .compiler import helper
from .threads_jit import (
    AXES,
    DATA,
    EXTENTS,
    PARAMETERS,
    STRIDES,
    TYPE,
    _call_object,
    _call_with,
    _copy,
    _drop,
    _is_of,
    _release,
    _take,
    _to_float,
    _to_int,
    bits,
    call_new_like,
    new_record,
    set_word,
    word,
)

# words that describe a prepared function: what else to call, the type of arrays, ..., the types of options that are
# compared by value, ..., what to call where there is nothing to prepare, and PLACES times WAYS entries
PREPARED_OTHER, PREPARED_TYPE, PREPARED_NEW_LIKE, PREPARED_STATE, PREPARED_TRUE = range(5)
PREPARED_INT, PREPARED_FLOAT, PREPARED_STR, PREPARED_TUPLE, PREPARED_NONE, PREPARED_PLAIN, PREPARED_TABLE = range(5, 12)
PLACES, WAYS = 512, 4
# words of an entry: the arrays that it makes, of which the first are the results (less than none: there is nothing to
# prepare), the place of its launches, the type of tuple that an operation returns, or 0, and the place of its graph, or
# 0. They are followed by a prototype for each of these arrays, then by the arguments: for an array the number of axes,
# the dtype, and each axis's extent and stride; for an option OPTION and the object. Then come the launches, each with
# its kernel, tasks and number of parameters, and three words for each parameter: kind, value or place, and bytes.
# Without a kernel it copies bytes, and the parameters are their destination, source and number; or, with one task, it
# looks at a number, and the parameters are its place, bytes and exponent bits: the entry is of no use if all are set;
# or, with two tasks, at int64 integers: their place, number, and smallest and largest value, with the same consequence.
ENTRY_OWNER, ENTRY_GIVEN, ENTRY_STRUCTURE, ENTRY_MADE, ENTRY_RESULTS, ENTRY_LAUNCHES, ENTRY_BEGIN = range(7)
ENTRY_CONTAINER, ENTRY_GRAPH, ENTRY_PROTOTYPES = 7, 8, 9
OPTION, PLAIN, EMPTY = -1, -1, -2
UNFIT = 2  # a number that must be finite is not
# which arguments are tuples, as a number to this base: 1 for an object, 2 and the length for a tuple
STRUCTURE = 67
CONSTANT, OF_ARGUMENT, OF_RESULT = range(3)  # a word, the elements of an argument, those of an array that it makes
EQUAL = 2  # Python's Py_EQ
_MULTIPLIER = 0x2545F4914F6CDD1D  # odd, with bits all over it
# more words of an operation: what it returns where it does not know what to do, and how many unknown calls it still
# passes on; two words that are 0 in unusual settings, a list that is empty unless operators are interpreted; the object
# with the mode of each thread, and its attribute; then slots of the mode, of a tensor and of a new tensor
OPERATION_MISS = PREPARED_TABLE + PLACES * WAYS
OPERATION_CALLS, OPERATION_USUAL, OPERATION_INTERPRETERS, OPERATION_THREAD, OPERATION_MODE = range(
    OPERATION_MISS + 1, OPERATION_MISS + 6
)
OPERATION_TENSOR, OPERATION_PARAMETER, OPERATION_LIST, OPERATION_FALSE, OPERATION_ARRAY, OPERATION_REQUIRES = range(
    OPERATION_MISS + 6, OPERATION_MISS + 12
)
# the slot that says whether calls are recorded; how many slots of a mode, and of a new tensor, have usual values
OPERATION_ENABLED, OPERATION_FLAGS, OPERATION_FIELDS = range(OPERATION_MISS + 12, OPERATION_MISS + 15)
# what a recorded call needs: True, the usual grad_req, the types of nodes and of saved results, the functions that
# number a node and find the user's line; then slots of a tensor, of the mode, of a node and of a saved result
OPERATION_TRUE, OPERATION_ADD, OPERATION_NODE, OPERATION_OUTPUT, OPERATION_ORDER, OPERATION_LINE = range(
    OPERATION_MISS + 15, OPERATION_MISS + 21
)
OPERATION_EDGE, OPERATION_REQUEST, OPERATION_SITE, NODE_EDGES, NODE_ORDER, NODE_SITE, NODE_SAVED = range(
    OPERATION_MISS + 21, OPERATION_MISS + 28
)
OUTPUT_ARRAY, OUTPUT_INDEX = OPERATION_MISS + 28, OPERATION_MISS + 29
# and what a backward needs: slots of a node and of the mode, the object with the number of the latest change, its slot
NODE_TEMPLATE, OPERATION_RETAIN, OPERATION_CLOCK, CLOCK_LATEST, OPERATION_SLOTS = range(
    OPERATION_MISS + 30, OPERATION_MISS + 35
)
# words of a graph: how many results are returned, nodes, and ends (an end is a result of a node, whose edge is made
# once); for each of these results its end, PLAIN, or EMPTY for None. Then come the nodes, each with its numbers of
# constants, edges, saved items (-1: a constant), attributes and ends, and whether it has a call site; then the
# constants (slot, object), edges (kind, place), saved items (kind, place, index or end), attributes (name, object) and
# ends (index, shape, dtype).
GRAPH_RETURNED, GRAPH_NODES, GRAPH_ENDS, GRAPH_RESULTS = range(4)
EDGE_NONE, EDGE_OF_ARGUMENT, EDGE_OF_END = range(3)
# a saved item: an object, an argument with its array, a result, the array of an argument, one that the entry makes, or
# a tensor around one, and a tensor around a constant array
SAVED_OBJECT, SAVED_ARGUMENT, SAVED_OUTPUT, SAVED_GIVEN, SAVED_MADE, SAVED_TENSOR, SAVED_NUMBER = range(7)
MOST_ARGUMENTS = 8  # whose structure fits 64 bits
MOST_ELEMENTS, ANY_SIZE = 1 << 18, 1 << 62  # of an array: above that Python's share of the time is small

_new_tuple = types.ExternalFunction("PyTuple_New", types.int64(types.int64))
_set_item = types.ExternalFunction("PyTuple_SetItem", types.int32(types.int64, types.int64, types.int64))
_length = types.ExternalFunction("PyTuple_Size", types.int64(types.int64))
_item = types.ExternalFunction("PyTuple_GetItem", types.int64(types.int64, types.int64))
_length_of_list = types.ExternalFunction("PyList_Size", types.int64(types.int64))
_item_of_list = types.ExternalFunction("PyList_GetItem", types.int64(types.int64, types.int64))
_hash = types.ExternalFunction("PyObject_Hash", types.int64(types.int64))
_equal = types.ExternalFunction("PyObject_RichCompareBool", types.int32(types.int64, types.int64, types.int64))
_attribute = types.ExternalFunction("PyObject_GetAttr", types.int64(types.int64, types.int64))
_new_list = types.ExternalFunction("PyList_New", types.int64(types.int64))
_set_item_of_list = types.ExternalFunction("PyList_SetItem", types.int32(types.int64, types.int64, types.int64))
_set_attribute = types.ExternalFunction("PyObject_SetAttr", types.int32(types.int64, types.int64, types.int64))
_allocate = types.ExternalFunction("PyType_GenericAlloc", types.int64(types.int64, types.int64))


@helper
def _mixed(key: int, value: int) -> int:
    """The next value of a hash."""
    return (key ^ value) * _MULTIPLIER


@helper
def _place(function: int, key: int) -> int:
    """Address of the entries that may belong to the layouts with this hash."""
    return function + 8 * (PREPARED_TABLE + WAYS * (key >> 40 & PLACES - 1))


@helper
def _key_of_option(function: int, key: int, value: int) -> int:
    """The next value of a hash, for an option."""
    kind = word(value, TYPE)
    if kind == word(function, PREPARED_FLOAT):
        return _mixed(key, bits(_to_float(value)))
    if kind == word(function, PREPARED_INT) or kind == word(function, PREPARED_STR):
        return _mixed(key, _hash(value))
    return _mixed(key, value)


@helper
def _is_same_option(function: int, x: int, y: int) -> bool:
    """Whether two options are the same: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if x == y:
        return True
    kind = word(x, TYPE)
    if kind != word(y, TYPE):
        return False
    if kind == word(function, PREPARED_FLOAT):
        return bits(_to_float(x)) == bits(_to_float(y))
    if kind == word(function, PREPARED_INT) or kind == word(function, PREPARED_STR):
        return _equal(x, y, EQUAL) == 1
    return False


@helper
def _fits(function: int, entry: int, arguments: int, count: int, structure: int) -> bool:
    """Whether the arrays have the layouts of an entry, and the options are its own."""
    if word(entry, ENTRY_GIVEN) != count or word(entry, ENTRY_STRUCTURE) != structure:
        return False
    at = ENTRY_PROTOTYPES + word(entry, ENTRY_MADE)
    for slot in range(count):
        x, axes = word(arguments, slot), word(entry, at)
        if axes == OPTION:
            if not _is_same_option(function, x, word(entry, at + 1)):
                return False
            at += 2
            continue
        if word(x, TYPE) != word(function, PREPARED_TYPE) or word(x, AXES) & 0xFFFFFFFF != axes:
            return False
        if not _is_of(x, word(entry, at + 1)):
            return False
        at += 2
        for axis in range(axes):
            if word(word(x, EXTENTS), axis) != word(entry, at) or word(word(x, STRIDES), axis) != word(entry, at + 1):
                return False
            at += 2
    return True


@helper
def _known(function: int, flat: int, leaves: int, structure: int, most: int) -> int:
    """The entry for these arguments; 0 if there is none, -1 if an array has more than ``most`` elements."""
    key = _mixed(leaves, structure)
    for slot in range(leaves):
        x = word(flat, slot)
        if word(x, TYPE) != word(function, PREPARED_TYPE):
            key = _key_of_option(function, key, x)
            continue
        axes = word(x, AXES) & 0xFFFFFFFF
        key, size = _mixed(key, axes), 1
        for axis in range(axes):
            size *= word(word(x, EXTENTS), axis)
            key = _mixed(_mixed(key, word(word(x, EXTENTS), axis)), word(word(x, STRIDES), axis))
        if size > most:
            return -1
    place = _place(function, key)
    for way in range(WAYS):
        entry = word(place, way)
        if entry == 0:
            return 0
        if _fits(function, entry, flat, leaves, structure):
            return entry
    return 0


@helper
def _drop_all(objects: int, first: int, end: int) -> None:
    for place in range(first, end):
        _drop(word(objects, place))


@helper
def _run_entry(function: int, entry: int, arguments: int, made: int) -> int:
    """Allocate the arrays of an entry and run its launches; ``made`` gets the results.

    Returns 1, 0 with an exception set, or UNFIT if a number that must be finite is not.
    """
    count, results = word(entry, ENTRY_MADE), word(entry, ENTRY_RESULTS)
    for place in range(count):
        array = call_new_like(word(function, PREPARED_NEW_LIKE), word(entry, ENTRY_PROTOTYPES + place))
        if array == 0:
            _drop_all(made, 0, place)
            return 0
        set_word(made, place, array)
    owner = word(entry, ENTRY_OWNER)
    _take(owner)  # another thread may replace the entry while this one runs
    record, done, fit = new_record(), True, True
    at = entry + 8 * word(entry, ENTRY_BEGIN)
    for _ in range(word(entry, ENTRY_LAUNCHES)):
        kernel, tasks, parameters = word(at, 0), word(at, 1), word(at, 2)
        at += 24
        for slot in range(parameters):
            kind, value = word(at, 0), word(at, 1)
            if kind == OF_ARGUMENT:
                value = word(word(arguments, value), DATA) + word(at, 2)
            elif kind >= OF_RESULT:  # above that, the address is rounded up to a cache line
                value = (word(word(made, value), DATA) + (kind - OF_RESULT) & OF_RESULT - kind - 1) + word(at, 2)
            set_word(record, slot, value)
            at += 24
        if kernel == 0 and tasks == 0:
            _copy(word(record, 0), word(record, 1), word(record, 2))
        elif kernel == 0 and tasks == 2:
            for place in range(word(record, 1)):
                value = word(word(record, 0), place)
                fit = fit and word(record, 2) <= value and value <= word(record, 3)
        elif kernel == 0:
            exponent = word(record, 2)
            set_word(record, 3, 0)
            _copy(record + 24, word(record, 0), word(record, 1))
            fit = fit and word(record, 3) & exponent != exponent
        elif done and fit:
            done = _release(word(function, PREPARED_STATE), kernel, tasks, record)
    _drop(owner)
    _drop_all(made, results, count)
    if done and fit:
        return 1
    _drop_all(made, 0, results)
    return UNFIT if done else 0


@helper
def _results(function: int, made: int, results: int) -> int:
    """None, the result, or a tuple of several."""
    if results == 1:
        return word(made, 0)
    if results == 0:
        _take(word(function, PREPARED_NONE))
        return word(function, PREPARED_NONE)
    several = _new_tuple(results)
    if several == 0:
        _drop_all(made, 0, results)
        return 0
    for place in range(results):
        _set_item(several, place, word(made, place))
    return several


def prepared(owner: int, arguments: int, count: int) -> int:
    """The built-in function (METH_FASTCALL) that launches what was prepared for arrays of these layouts.

    ``owner`` is a Python integer, the address of the words of the function. Its arguments are arrays, options, which
    are compared by value if they are numbers or strings, and else by identity, and tuples of these. If PREPARED_TRUE is
    set, True after the last array is ignored. For unknown layouts or options it calls its ``other``, and where there is
    nothing to prepare, or a number that should be finite is not, its plain function.
    """
    function = _to_int(owner)
    given, flat = arguments, new_record()
    last = count
    while last > 0 and word(given, last - 1) == word(function, PREPARED_TRUE):
        last -= 1
    leaves, structure = 0, 0
    for slot in range(last):
        x = word(given, slot)
        length = _length(x) if word(x, TYPE) == word(function, PREPARED_TUPLE) else -1
        structure = structure * STRUCTURE + length + 2
        if leaves + max(length, 1) > PARAMETERS or length >= STRUCTURE - 2:
            return _call_with(word(function, PREPARED_OTHER), given, count, 0)
        if length < 0:
            set_word(flat, leaves, x)
            leaves += 1
        for at in range(length):
            set_word(flat, leaves, _item(x, at))
            leaves += 1
    entry = _known(function, flat, leaves, structure, ANY_SIZE)
    if entry == 0:
        return _call_with(word(function, PREPARED_OTHER), given, count, 0)
    made, results = new_record(), word(entry, ENTRY_RESULTS)
    status = UNFIT if results < 0 else _run_entry(function, entry, flat, made)
    if status == UNFIT:
        return _call_with(word(function, PREPARED_PLAIN), given, count, 0)
    return _results(function, made, results) if status == 1 else 0


@helper
def _miss(function: int) -> int:
    _take(word(function, OPERATION_MISS))
    return word(function, OPERATION_MISS)


@helper
def _has_values(thing: int, pairs: int, count: int) -> bool:
    """Whether slots of an object, each listed with its value, have these values."""
    same = True
    for pair in range(count):
        same = same and word(thing, word(pairs, 2 * pair)) == word(pairs, 2 * pair + 1)
    return same


@helper
def _mode_of_call(function: int) -> int:
    """The address of the mode, which the thread keeps; -1 in an unusual setting, 0 with an exception set."""
    usual = word(function, OPERATION_USUAL)
    if word(usual, 0) == 0 or word(usual, 1) == 0 or _length_of_list(word(function, OPERATION_INTERPRETERS)) != 0:
        return -1
    mode = _attribute(word(function, OPERATION_THREAD), word(function, OPERATION_MODE))
    if mode == 0:
        return 0
    _drop(mode)  # the thread keeps it
    return mode if _has_values(mode, function + 8 * OPERATION_SLOTS, word(function, OPERATION_FLAGS)) else -1


@helper
def _leaf(function: int, x: int) -> int:
    """The array of a tensor, or an option; 0 for what an operation does not take."""
    kind = word(x, TYPE)
    if kind == word(function, OPERATION_TENSOR) or kind == word(function, OPERATION_PARAMETER):
        array = word(x, word(function, OPERATION_ARRAY))
        if array == 0 or word(array, TYPE) != word(function, PREPARED_TYPE):
            return 0
        return array
    return 0 if kind == word(function, PREPARED_TYPE) else x


@helper
def _new_tensor(function: int, array: int) -> int:
    """A new tensor around an array, whose reference it takes."""
    tensor = _allocate(word(function, OPERATION_TENSOR), 0)
    if tensor == 0:
        _drop(array)
        return 0
    set_word(tensor, word(function, OPERATION_ARRAY), array)
    fields = function + 8 * (OPERATION_SLOTS + 2 * word(function, OPERATION_FLAGS))
    for pair in range(word(function, OPERATION_FIELDS)):
        value = word(fields, 2 * pair + 1)
        _take(value)
        set_word(tensor, word(fields, 2 * pair), value)
    return tensor


@helper
def _is_usual(function: int, x: int) -> bool:
    """Whether a tensor is the result of a node, or has the usual grad_req."""
    edge, request = word(x, word(function, OPERATION_EDGE)), word(x, word(function, OPERATION_REQUEST))
    return request == word(function, OPERATION_ADD) if edge == word(function, PREPARED_NONE) else edge != 0


@helper
def _fill(thing: int, slot: int, value: int) -> None:
    """Set a slot of an object, which takes a reference of its own."""
    before = word(thing, slot)
    _take(value)
    set_word(thing, slot, value)
    _drop(before)


@helper
def _pair(tensor: int, array: int) -> int:
    """A tensor and its array as a tuple; 0 with an exception set."""
    pair = _new_tuple(2)
    if pair == 0 or tensor == 0:
        _drop(pair)
        return 0
    _take(tensor)
    _set_item(pair, 0, tensor)
    _take(array)
    _set_item(pair, 1, array)
    return pair


@helper
def _connect(function: int, tensor: int, edge: int) -> None:
    """Make a new tensor the result of a node."""
    _fill(tensor, word(function, OPERATION_EDGE), edge)
    _fill(tensor, word(function, OPERATION_REQUIRES), word(function, OPERATION_TRUE))


@helper
def _saved_item(function: int, item: int, flat: int, tensors: int, made: int, ends: int) -> int:
    """What a node saves, as a new reference; 0 with an exception set."""
    kind, value = word(item, 0), word(item, 1)
    if kind == SAVED_ARGUMENT:
        return _pair(word(tensors, value), word(flat, value))
    if kind == SAVED_OUTPUT:
        output = _allocate(word(function, OPERATION_OUTPUT), 0)
        if output != 0:
            _fill(output, word(function, OUTPUT_ARRAY), word(made, value))
            _fill(output, word(function, OUTPUT_INDEX), word(item, 2))
        return output
    if kind in (SAVED_TENSOR, SAVED_NUMBER):
        array = value if kind == SAVED_NUMBER else word(made, value)
        _take(array)
        tensor = _new_tensor(function, array)
        if tensor != 0 and word(item, 2) >= 0:
            _connect(function, tensor, word(ends, word(item, 2)))
        pair = _pair(tensor, array)
        _drop(tensor)
        return pair
    if kind != SAVED_OBJECT:
        value = word(flat if kind == SAVED_GIVEN else made, value)
    _take(value)
    return value


@helper
def _line_of_call(function: int, mode: int) -> int:
    """The call site in user code, as a new reference; 0 with an exception set."""
    site = word(mode, word(function, OPERATION_SITE))
    if site == word(function, PREPARED_NONE):
        return _call_object(word(function, OPERATION_LINE))
    _take(site)
    return site


@helper
def _new_edges(function: int, at: int, count: int, edges: int, ends: int) -> int:
    """The edges of a node as a tuple; 0 with an exception set."""
    found = _new_tuple(count)
    for place in range(count if found != 0 else 0):
        kind, value = word(at, 2 * place), word(at, 2 * place + 1)
        holder = edges if kind == EDGE_OF_ARGUMENT else ends
        edge = word(function, PREPARED_NONE) if kind == EDGE_NONE else word(holder, value)
        _take(edge)
        _set_item(found, place, edge)
    return found


@helper
def _record(function: int, graph: int, mode: int, flat: int, tensors: int, edges: int, made: int, ends: int) -> bool:
    """Make the nodes of a call, and the edges to their results, which hold them; False with an exception set."""
    at, end, line, done = graph + 8 * (GRAPH_RESULTS + word(graph, GRAPH_RETURNED)), 0, 0, True
    for place in range(word(graph, GRAPH_ENDS)):
        set_word(ends, place, 0)
    for _ in range(word(graph, GRAPH_NODES)):
        constants, degree, saved = word(at, 0), word(at, 1), word(at, 2)
        attributes, results, has_line = word(at, 3), word(at, 4), word(at, 5)
        at += 48
        node = _allocate(word(function, OPERATION_NODE), 0) if done else 0
        done = node != 0
        if not done:
            break
        for pair in range(constants):
            _fill(node, word(at, 2 * pair), word(at, 2 * pair + 1))
        at += 16 * constants
        set_word(node, word(function, NODE_EDGES), _new_edges(function, at, degree, edges, ends))
        at += 16 * degree
        done = word(node, word(function, NODE_EDGES)) != 0
        if saved >= 0:
            items = _new_list(saved)
            set_word(node, word(function, NODE_SAVED), items)
            done = done and items != 0
            for place in range(saved if items != 0 else 0):
                item = _saved_item(function, at + 24 * place, flat, tensors, made, ends)
                _set_item_of_list(items, place, item)
                done = done and item != 0
            at += 24 * saved
        if has_line and done:
            if line == 0:
                line = _line_of_call(function, mode)
            done = line != 0
            _fill(node, word(function, NODE_SITE), line)
        for pair in range(attributes if done else 0):
            done = done and _set_attribute(node, word(at, 2 * pair), word(at, 2 * pair + 1)) == 0
        at += 16 * attributes
        order = _call_object(word(function, OPERATION_ORDER)) if done else 0
        set_word(node, word(function, NODE_ORDER), order)
        done = order != 0
        for _ in range(results if done else 0):
            edge = _new_tuple(4)
            set_word(ends, end, edge)
            end += 1
            done = done and edge != 0
            if edge != 0:
                _take(node)
                _set_item(edge, 0, node)
                for place in range(3):
                    _take(word(at, place))
                    _set_item(edge, place + 1, word(at, place))
            at += 24
        _drop(node)
    _drop(line)
    return done


@helper
def _tensors(function: int, made: int, results: int, container: int, graph: int, ends: int) -> int:
    """The results of an operation as tensors."""
    found, used, done = new_record(), 0, True
    for place in range(results):
        end = PLAIN if graph == 0 else word(graph, GRAPH_RESULTS + place)
        if end == EMPTY:
            _take(word(function, PREPARED_NONE))
            set_word(found, place, word(function, PREPARED_NONE))
            continue
        tensor = _new_tensor(function, word(made, used))
        used += 1
        done = done and tensor != 0
        if end >= 0 and tensor != 0:
            _connect(function, tensor, word(ends, end))
        set_word(found, place, tensor)
    if done and container == 0:
        return word(found, 0)
    is_plain = container == word(function, PREPARED_TUPLE)
    several = 0 if not done else _new_tuple(results) if is_plain else _allocate(container, results)
    if several == 0:
        _drop_all(found, 0, results)
        return 0
    for place in range(results):
        _set_item(several, place, word(found, place))
    return several


@helper
def _with_graph(function: int, entry: int, mode: int, flat: int, tensors: int, edges: int, made: int) -> int:
    """The results of a recorded call, with the nodes that it makes."""
    graph, ends = entry + 8 * word(entry, ENTRY_GRAPH), new_record()
    results, returned, result = word(graph, GRAPH_RETURNED), 0, 0
    for place in range(results):
        returned += word(graph, GRAPH_RESULTS + place) != EMPTY
    done = _record(function, graph, mode, flat, tensors, edges, made, ends)
    _drop_all(made, returned, word(entry, ENTRY_RESULTS))
    if done:
        result = _tensors(function, made, results, word(entry, ENTRY_CONTAINER), graph, ends)
    else:
        _drop_all(made, 0, returned)
    _drop_all(ends, 0, word(graph, GRAPH_ENDS))
    return result


@helper
def _saved_array(function: int, item: int) -> int:
    """The array of a saved item, or None; 0 for anything else."""
    kind = word(item, TYPE)
    if kind == word(function, PREPARED_TUPLE):
        item = _item(item, 1)
    elif kind == word(function, OPERATION_OUTPUT):
        item = word(item, word(function, OUTPUT_ARRAY))
    return item if item == word(function, PREPARED_NONE) or word(item, TYPE) == word(function, PREPARED_TYPE) else 0


@helper
def _leaves_of_node(function: int, node: int, mode: int, flat: int, tensors: int) -> int:
    """Put what a backward depends on first among the leaves; how many there are, or 0 where it runs in Python."""
    template, saved = word(node, word(function, NODE_TEMPLATE)), word(node, word(function, NODE_SAVED))
    if template == 0 or saved == 0 or word(saved, TYPE) != word(function, OPERATION_LIST):
        return 0
    latest = word(word(function, OPERATION_CLOCK), word(function, CLOCK_LATEST))
    order = word(node, word(function, NODE_ORDER))  # a fraction if its call has run again in place of another
    if word(order, TYPE) != word(latest, TYPE) or _to_int(order) > _to_int(latest):
        return 0
    set_word(flat, 0, template)
    set_word(flat, 1, word(mode, word(function, OPERATION_RETAIN)))
    count = _length_of_list(saved) + 2
    if 2 * count > PARAMETERS:
        return 0
    for place in range(count):
        set_word(tensors, place, 0)
    for place in range(count - 2):
        array = _saved_array(function, _item_of_list(saved, place))
        if array == 0:
            return 0
        set_word(flat, place + 2, array)
    return count


def operation(owner: int, arguments: int, count: int, names: int) -> int:
    """The built-in function (METH_FASTCALL and METH_KEYWORDS) of an operator; it records what the operator records.

    It takes tensors, options, and tuples and lists of these; a backward takes a node and a gradient. In every setting
    that is not usual, and for objects of other types, it returns NotImplemented: the caller then calls the operator
    itself. So it does for unknown layouts or options, after it has passed them on to ``other``.
    """
    function = _to_int(owner)
    mode = _mode_of_call(function)
    if mode <= 0:
        return _miss(function) if mode < 0 else 0
    requires, no = word(function, OPERATION_REQUIRES), word(function, OPERATION_FALSE)
    enabled = word(mode, word(function, OPERATION_ENABLED)) != no
    named = 0 if names == 0 else _length(names)
    if count + named > MOST_ARGUMENTS:
        return _miss(function)
    flat, tensors, edges = new_record(), new_record(), new_record()
    leaves, structure, recorded = 0, int(enabled), False
    for slot in range(count + named):
        x = word(arguments, slot)
        kind = word(x, TYPE)
        is_list = kind == word(function, OPERATION_LIST)
        length = -1
        if is_list:
            length = _length_of_list(x)
        elif kind == word(function, PREPARED_TUPLE):
            length = _length(x)
        elif kind == word(function, OPERATION_NODE):
            leaves = 0 if enabled or slot != 0 else _leaves_of_node(function, x, mode, flat, tensors)
            if leaves == 0:
                return _miss(function)
            structure = (structure * STRUCTURE + leaves + 2) * 2 + 1  # as for a list
            continue
        structure = (structure * STRUCTURE + length + 2) * 2 + is_list
        if leaves + named + 2 * max(length, 1) > PARAMETERS or length >= STRUCTURE - 2:
            return _miss(function)
        for at in range(1 if length < 0 else length):
            value = x if length < 0 else _item_of_list(x, at) if is_list else _item(x, at)
            leaf = _leaf(function, value)
            if leaf == 0:
                return _miss(function)
            set_word(flat, leaves, leaf)
            is_tensor = leaf != value
            set_word(tensors, leaves, value if is_tensor else 0)
            leaves += 1
            if is_tensor and enabled and word(value, requires) != no:
                recorded = True
                set_word(flat, leaves, word(function, OPERATION_MISS))  # marks a tensor that requires a gradient
                set_word(tensors, leaves, 0)
                leaves += 1
    for at in range(named):
        set_word(flat, leaves, _item(names, at))
        set_word(tensors, leaves, 0)
        leaves += 1
    for slot in range(leaves if recorded else 0):
        if word(tensors, slot) != 0 and not _is_usual(function, word(tensors, slot)):
            return _miss(function)
    structure = structure * STRUCTURE + named
    entry = _known(function, flat, leaves, structure, MOST_ELEMENTS)
    if entry == 0 and word(function, OPERATION_CALLS) > 0:
        set_word(function, OPERATION_CALLS, word(function, OPERATION_CALLS) - 1)
        return _call_with(word(function, PREPARED_OTHER), arguments, count, names)
    if entry <= 0 or word(entry, ENTRY_RESULTS) < 0:
        return _miss(function)
    for slot in range(leaves):  # another thread may change a tensor or a list while the kernels run
        _take(word(flat, slot))
        set_word(edges, slot, 0)
        tensor = word(tensors, slot)
        if recorded and tensor != 0:
            edge = word(tensor, word(function, OPERATION_EDGE))
            set_word(edges, slot, tensor if edge == word(function, PREPARED_NONE) else edge)
            _take(tensor)
            _take(word(edges, slot))
    made, owner = new_record(), word(entry, ENTRY_OWNER)
    _take(owner)
    status, result = _run_entry(function, entry, flat, made), 0
    if status == 1 and word(entry, ENTRY_GRAPH) != 0:
        result = _with_graph(function, entry, mode, flat, tensors, edges, made)
    elif status == 1:
        result = _tensors(function, made, word(entry, ENTRY_RESULTS), word(entry, ENTRY_CONTAINER), 0, 0)
    elif status == UNFIT:
        result = _miss(function)
    _drop(owner)
    _drop_all(flat, 0, leaves)
    if recorded:
        _drop_all(tensors, 0, leaves)
        _drop_all(edges, 0, leaves)
    return result


def remember(function: int, entry: int) -> int:
    """Put an entry into the table of a prepared function; return the one that it replaces, or 0."""
    given = word(entry, ENTRY_GIVEN)
    key, at = _mixed(given, word(entry, ENTRY_STRUCTURE)), ENTRY_PROTOTYPES + word(entry, ENTRY_MADE)
    for _ in range(given):
        axes = word(entry, at)
        if axes == OPTION:
            key = _key_of_option(function, key, word(entry, at + 1))
            at += 2
            continue
        key = _mixed(key, axes)
        at += 2
        for _ in range(axes):
            key = _mixed(_mixed(key, word(entry, at)), word(entry, at + 1))
            at += 2
    place = _place(function, key)
    for way in range(WAYS):  # the newest comes first
        before = word(place, way)
        set_word(place, way, entry)
        if before == 0:
            return 0
        entry = before
    return entry
