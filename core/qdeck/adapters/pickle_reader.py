"""What a pickle holds, as data: its opcodes are decoded, and nothing in it is imported, called or built."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck.adapters.stored_values import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_OPCODES: Final = 20_000
MOST_VALUES: Final = 10_000  # a few bytes of a pickle can stand for billions of values
MOST_TEXT: Final = 1 << 20  # the same for the characters of texts
DEEPEST: Final = 50
LONGEST_CALL: Final = 300
_MOST_INT: Final = 1 << 63
_MARK: Final = object()


class Pickled(msgspec.Struct, frozen=True, kw_only=True):
    """A pickle as a JSON value.

    What would be called or imported is a text such as `module.name(1, 'a')`; `names` are all of these. `problem` says
    why only a part could be read.
    """

    value: Any = None
    names: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(slots=True, eq=False)
class _Call:
    """What unpickling would import or call."""

    name: str
    args: Any = ()
    is_called: bool = False
    items: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Table:
    """A dict, whose keys may be anything."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


class _MalformedError(ValueError):
    """A pickle that no unpickler would accept."""


def read(data: bytes) -> Pickled:
    """Return what a pickle holds; any bytes have an answer."""
    machine = _Machine()
    problem = None
    try:
        if len(data) > MOST_BYTES:
            problem = f"the pickle has {len(data):,} bytes; {MOST_BYTES:,} at most are read"
        else:
            machine.run(data)
    except _MalformedError as error:
        problem = f"the pickle is malformed: {error}"
    except (ValueError, OverflowError, LookupError, UnicodeError) as error:
        problem = f"the pickle is malformed: {type(error).__name__}"
    return Pickled(value=_Plain().of(machine.result), names=tuple(dict.fromkeys(machine.names)), problem=problem)


class _Machine:
    """The stack of an unpickler, with symbols in place of what it would build."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.names: list[str] = []

    @property
    def result(self) -> Any:
        """What is on top of the stack."""
        return next((value for value in reversed(self.stack) if value is not _MARK), None)

    def run(self, data: bytes) -> None:
        """Decode all opcodes."""
        import pickletools

        for count, (opcode, arg, _) in enumerate(pickletools.genops(data)):
            if count >= MOST_OPCODES:
                raise _MalformedError(f"more than {MOST_OPCODES:,} opcodes")
            self.step(opcode.name, arg)

    def step(self, name: str, arg: Any) -> None:
        """Do what an opcode does, with symbols."""
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _MAKERS:
            self.stack.append(_MAKERS[name]())
        elif name in _WITH_VALUE:
            self.stack.append(arg)
        elif name in _NOTHING:
            pass
        elif name in _STEPS:
            _STEPS[name](self, arg)
        else:
            self.stack.append(_Call(f"<{name.lower()} {arg if isinstance(arg, int) else ''}>".replace(" >", ">")))

    def pop(self) -> Any:
        """Take the value on top."""
        if not self.stack or self.stack[-1] is _MARK:
            raise _MalformedError("the stack is empty")
        return self.stack.pop()

    def popped_to_mark(self) -> list[Any]:
        """Take all values above the last mark, and the mark."""
        found: list[Any] = []
        while self.stack:
            value = self.stack.pop()
            if value is _MARK:
                return found[::-1]
            found.append(value)
        raise _MalformedError("a mark is missing")

    def top(self) -> Any:
        """Return the value on top."""
        if not self.stack or self.stack[-1] is _MARK:
            raise _MalformedError("the stack is empty")
        return self.stack[-1]

    def imported(self, name: str) -> _Call:
        """Return the symbol of something that would be imported."""
        self.names.append(name)
        return _Call(name)

    def extend(self, values: list[Any]) -> None:
        """Add values to the list, or what stands for one, on top."""
        target = self.top()
        (target.items if isinstance(target, _Call) else target if isinstance(target, list) else []).extend(values)

    def assign(self, pairs: list[Any]) -> None:
        """Add keys and values to the dict, or what stands for one, on top."""
        target = self.top()
        if isinstance(target, _Table | _Call):
            target.items.extend(zip(pairs[::2], pairs[1::2], strict=False))

    def call(self, target: Any, args: Any) -> None:
        """Push the symbol of a call."""
        name = target.name if isinstance(target, _Call) else "<value>"
        self.stack.append(_Call(name, args, is_called=True))


def _global(machine: _Machine, arg: str) -> None:
    machine.stack.append(machine.imported(arg.replace(" ", ".", 1)))


def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    both = all(isinstance(one, str) for one in (module, name))
    machine.stack.append(machine.imported(f"{module}.{name}" if both else "<name>"))


def _reduce(machine: _Machine, _: Any) -> None:
    args = machine.pop()
    machine.call(machine.pop(), args)


def _new_with_keywords(machine: _Machine, _: Any) -> None:
    keywords, args = machine.pop(), machine.pop()
    machine.call(machine.pop(), (*args, keywords) if isinstance(args, tuple) else keywords)


def _instance(machine: _Machine, arg: str) -> None:
    machine.call(machine.imported(arg.replace(" ", ".", 1)), tuple(machine.popped_to_mark()))


def _object(machine: _Machine, _: Any) -> None:
    [*values] = machine.popped_to_mark()
    machine.call(values[0] if values else None, tuple(values[1:]))


def _build(machine: _Machine, _: Any) -> None:
    state = machine.pop()
    target = machine.top()
    if isinstance(target, _Call):
        target.items.append(state)


def _put(machine: _Machine, arg: Any) -> None:
    machine.memo[int(arg)] = machine.top()


def _get(machine: _Machine, arg: Any) -> None:
    if int(arg) not in machine.memo:
        raise _MalformedError("a value that it refers to is missing")
    machine.stack.append(machine.memo[int(arg)])


def _tuple_of(count: int) -> Callable[[_Machine, Any], None]:
    def step(machine: _Machine, _: Any) -> None:
        machine.stack.append(tuple([machine.pop() for _ in range(count)][::-1]))

    return step


def _table(machine: _Machine, _: Any) -> None:
    pairs = machine.popped_to_mark()
    machine.stack.append(_Table(list(zip(pairs[::2], pairs[1::2], strict=False))))


def _set_one(machine: _Machine, _: Any) -> None:
    value, key = machine.pop(), machine.pop()
    machine.assign([key, value])


_CONSTANTS: Final[Mapping[str, Any]] = {
    "NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": _MARK, "EMPTY_TUPLE": (),
}  # fmt: skip
_MAKERS: Final[Mapping[str, Callable[[], Any]]] = {"EMPTY_LIST": list, "EMPTY_SET": list, "EMPTY_DICT": _Table}
_WITH_VALUE: Final = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE", "SHORT_BINUNICODE",
    "BINUNICODE", "BINUNICODE8",
))  # fmt: skip
_NOTHING: Final = frozenset(("PROTO", "FRAME", "STOP", "READONLY_BUFFER"))
_STEPS: Final[Mapping[str, Callable[[_Machine, Any], object]]] = {
    "GLOBAL": _global, "STACK_GLOBAL": _stack_global, "REDUCE": _reduce, "NEWOBJ": _reduce,
    "NEWOBJ_EX": _new_with_keywords, "INST": _instance, "OBJ": _object, "BUILD": _build,
    "PUT": _put, "BINPUT": _put, "LONG_BINPUT": _put, "MEMOIZE": lambda m, _: _put(m, len(m.memo)),
    "GET": _get, "BINGET": _get, "LONG_BINGET": _get,
    "POP": lambda m, _: m.stack.pop() if m.stack else None, "POP_MARK": lambda m, _: m.popped_to_mark(),
    "DUP": lambda m, _: m.stack.append(m.top()),
    "APPEND": lambda m, _: m.extend([m.pop()]), "APPENDS": lambda m, _: m.extend(m.popped_to_mark()),
    "ADDITEMS": lambda m, _: m.extend(m.popped_to_mark()),
    "SETITEM": _set_one, "SETITEMS": lambda m, _: m.assign(m.popped_to_mark()), "DICT": _table,
    "LIST": lambda m, _: m.stack.append(m.popped_to_mark()),
    "FROZENSET": lambda m, _: m.stack.append(m.popped_to_mark()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.popped_to_mark())),
    "TUPLE1": _tuple_of(1), "TUPLE2": _tuple_of(2), "TUPLE3": _tuple_of(3),
    "PERSID": lambda m, arg: m.stack.append(_Call("<persistent id>", (arg,), is_called=True)),
    "BINPERSID": lambda m, _: m.stack.append(_Call("<persistent id>", (m.pop(),), is_called=True)),
}  # fmt: skip


class _Plain:
    """Makes JSON values of what the machine has, up to a number of values and characters."""

    def __init__(self) -> None:
        self.left = MOST_VALUES
        self.text_left = MOST_TEXT

    def of(self, value: Any, depth: int = 0) -> Any:
        """Return a value as JSON has it; `…` is what is too much or too deep."""
        self.left -= 1
        if self.left < 0 or depth > DEEPEST:
            return "…"
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if -_MOST_INT <= value < _MOST_INT else _int_text(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, str):
            return self.fitting(value).encode("utf-8", "backslashreplace").decode()
        if isinstance(value, bytes | bytearray):
            return _bytes(bytes(self.fitting(value)))
        if isinstance(value, list | tuple):
            return [self.of(one, depth + 1) for one in value[: self.left + 1]]
        if isinstance(value, _Table):
            items = value.items[: self.left + 1]
            return {self.key(key, depth + 1): self.of(item, depth + 1) for key, item in items}
        return self.call(value, depth + 1)

    def fitting(self, text: Any) -> Any:
        """Return as much of a text as there is room for."""
        kept = text[: max(0, self.text_left)]
        self.text_left -= len(text)
        return kept

    def key(self, key: Any, depth: int) -> str:
        """Return the key of a table, as a text."""
        shown = self.of(key, depth)
        return shown if isinstance(shown, str) else _text(shown)

    def call(self, call: _Call, depth: int) -> str:
        """Return a call as the text that somebody would write."""
        if not call.is_called and not call.items:
            return call.name
        args = self.of(call.args if isinstance(call.args, tuple) else (call.args,), depth)
        words = [_text(one) for one in args] if isinstance(args, list) else [str(args)]
        words += [_text(self.of(item, depth)) for item in call.items[: self.left + 1]]
        text = f"{call.name}({', '.join(words)})"
        return text if len(text) <= LONGEST_CALL else text[: LONGEST_CALL - 1] + "…"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _int_text(value: int) -> str:
    return str(value) if value.bit_length() < 10_000 else f"<integer of {value.bit_length():,} bits>"


def _bytes(value: bytes) -> Any:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
    return text if text.isprintable() else {"base64": base64.b64encode(value).decode()}
