"""An evaluator of AMD's instruction pseudocode, as tinygrad's PCODE tables hold it.

`compile_pcode(text)` parses once; the program runs for one lane at a time in an `Env`, which holds
the operands (``S0`` ... as bits), destinations and the state that the text names.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pcode_state import Env, UnsupportedError, store, type_of_suffix, walk
from pcode_values import V, bits_of, cast, from_bits, is_float, make, mask, round_float

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<sized>\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)(?:ULL|LL|U|F)?)
    | (?P<cast>\d+'(?:BF|[UIFB])(?![A-Za-z]))
    | (?P<number>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U|F)?)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<op>\*\*|<<|>>|<=|>=|==|!=|<>|&&|\|\||\+:|\+=|-=|\*=|[-+*/%&|^~!<>=?:;,.()\[\]{}])
    )""",
    re.X,
)
_KEYWORDS = {
    "if",
    "then",
    "elsif",
    "else",
    "endif",
    "for",
    "in",
    "do",
    "endfor",
    "declare",
    "break",
    "return",
}


def tokenize(text: str) -> list[tuple[str, str]]:
    text = re.sub(r"//.*", "", text)
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise UnsupportedError(f"cannot read {text[at : at + 30]!r}")
        tokens.append((match.lastgroup or "", match.group(match.lastgroup or 0).strip()))
        at = match.end()
    tokens.append(("end", ""))
    return tokens


class LoopBreakError(Exception):
    pass


class ReturnError(Exception):
    def __init__(self, value: V):
        self.value = value


Node = Callable[["Env"], V]
Statement = Callable[["Env"], None]


def _number(text: str) -> V:
    match = re.match(r"^(?:(\d+)')?(0x[0-9a-fA-F]+|\d+\.\d+|\d+)(ULL|LL|U|F)?$", text)
    assert match
    width = int(match[1]) if match[1] else None
    body, tail = match[2], match[3]
    if "." in body or (tail == "F" and not body.startswith("0x")):
        return V("f", width or (32 if tail == "F" else 64), float(body))
    value = int(body, 0)
    if width:
        return V("u" if tail == "U" else "n" if not body.startswith("0x") else "b", width, value)
    if tail and body.startswith("0x") and "U" not in tail:
        return V("b", 64 if "LL" in tail else 32, value)
    if tail:
        return V("u" if "U" in tail else "i", 64 if "LL" in tail else 32, value)
    return V("n", None, value)


def _common(a: V, b: V) -> tuple[str, int | None]:
    """Type of an integer operation. As in C, narrow operands count as 32 bits."""
    if a.kind == "n" and a.width is None and b.kind == "n" and b.width is None:
        return "n", None
    wa, wb = a.width or 0, b.width or 0
    width = max(32, wa, wb)
    kinds = {v.kind for v in (a, b) if v.kind != "n"}
    if not kinds:
        return "i", width
    if len(kinds) == 1:
        kind = kinds.pop()
        return ("u" if kind == "b" else kind), width
    if wa != wb and max(wa, wb) > 32:
        wide = a if wa > wb else b
        return ("i" if wide.kind == "i" else "u"), width
    return ("i" if {wa, wb} != {32} and kinds == {"i", "n"} else "u"), width


def _float_width(a: V, b: V) -> int:
    widths = [v.width or 64 for v in (a, b) if v.kind == "f"]
    return max(widths) if widths else 32


def arithmetic(op: str, a: V, b: V) -> V:
    if is_float(a) or is_float(b):
        x, y, width = float(a.x), float(b.x), _float_width(a, b)
        if a.kind == "bf" and b.kind == "bf":
            from pcode_functions import bf16_arithmetic

            return bf16_arithmetic(op, x, y)
        if op == "+":
            return round_float(width, x + y)
        if op == "-":
            return round_float(width, x - y)
        if op == "*":
            return round_float(width, x * y)
        if op == "/":
            from pcode_functions import divide

            return round_float(width, divide(x, y))
        if op == "**":
            return V("f", 64, x**y)
        raise UnsupportedError(f"{op} of floats")
    kind, width = _common(a, b)
    x, y = a.x, b.x
    if op == "+":
        return make(kind, width, x + y)
    if op == "-":
        return make(kind, width, x - y)
    if op == "*":
        return make(kind, width, x * y)
    if op in "/%":
        q = abs(x) // abs(y)
        q = -q if (x < 0) != (y < 0) else q
        return make(kind, width, q if op == "/" else x - q * y)
    if op == "&":
        return make(kind, width, x & y)
    if op == "|":
        return make(kind, width, x | y)
    if op == "^":
        return make(kind, width, x ^ y)
    if op in ("<<", ">>"):
        kind, width = (
            ("n", None) if a.kind == "n" and a.width is None else (a.kind, max(32, a.width or 32))
        )
        if op == "<<":
            return make(kind, width, x << y) if y < 4096 else make(kind, width, 0)
        return make(kind, width, x >> y)
    raise UnsupportedError(op)


def compare(op: str, a: V, b: V) -> V:
    x, y = a.x, b.x
    if op == "<>":  # ordered and different
        return V("u", 1, int(x < y or x > y))
    result = {"==": x == y, "!=": x != y, "<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y}[op]
    return V("u", 1, int(result))


class Parser:
    def __init__(self, text: str):
        self.tokens = tokenize(text)
        self.at = 0

    def peek(self) -> str:
        kind, text = self.tokens[min(self.at, len(self.tokens) - 1)]
        return text if kind in ("op", "name") else ""

    def next(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise UnsupportedError("text ends early")
        token = self.tokens[self.at]
        self.at += 1
        return token

    def at_end(self) -> bool:
        return self.at >= len(self.tokens) - 1

    def take(self, text: str) -> bool:
        if self.peek() == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise UnsupportedError(f"expected {text!r} before {self.tokens[self.at : self.at + 4]}")

    # ---- statements ----
    def block(self, *ends: str) -> Statement:
        body: list[Statement] = []
        while True:
            while self.take(";"):
                pass
            if self.peek() in ends or self.at_end():
                break
            body.append(self.statement())
        if len(body) == 1:
            return body[0]

        def run(env: Env) -> None:
            for s in body:
                s(env)

        return run

    def statement(self) -> Statement:
        if self.take("if"):
            return self.conditional()
        if self.take("for"):
            return self.loop()
        if self.take("declare"):
            return self.declaration()
        if self.take("break"):

            def stop(env: Env) -> None:
                raise LoopBreakError

            return stop
        if self.take("return"):
            value = self.expression()

            def give(env: Env) -> None:
                raise ReturnError(value(env))

            return give
        return self.assignment()

    def conditional(self) -> Statement:
        branches: list[tuple[Node, Statement]] = []
        otherwise: Statement | None = None
        test = self.expression()
        self.expect("then")
        branches.append((test, self.block("elsif", "else", "endif")))
        while self.take("elsif"):
            test = self.expression()
            self.expect("then")
            branches.append((test, self.block("elsif", "else", "endif")))
        if self.take("else"):
            otherwise = self.block("endif")
        self.expect("endif")

        def run(env: Env) -> None:
            for test, body in branches:
                if test(env).x:
                    body(env)
                    return
            if otherwise:
                otherwise(env)

        return run

    def loop(self) -> Statement:
        name = self.next()[1]
        self.expect("in")
        first = self.binary(0)
        self.expect(":")
        last = self.expression()
        self.expect("do")
        body = self.block("endfor")
        self.expect("endfor")

        def run(env: Env) -> None:
            low = first(env)
            kind, width = (low.kind, low.width) if low.width else ("u", 32)
            for i in range(low.x, last(env).x + 1):
                env.vars[name] = V(kind, width, i)
                try:
                    body(env)
                except LoopBreakError:
                    break

        return run

    def declaration(self) -> Statement:
        name = self.next()[1]
        self.expect(":")
        kind, text = self.next()
        if kind != "cast":
            raise UnsupportedError(f"type {text}")
        width, letter = text.split("'")
        type_ = ("bf" if letter == "BF" else letter.lower(), int(width))
        count = None
        if self.take("["):
            count = self.expression()
            self.expect("]")

        def run(env: Env) -> None:
            # Names that the caller supplies (DATA0, S, CVT_OFF_TABLE) are declared for their type.
            if name in env.vars and (name.isupper() or len(name) == 1):
                return
            zero = from_bits(*type_, 0)
            env.vars[name] = [zero] * count(env).x if count else zero

        return run

    def assignment(self) -> Statement:
        if self.take("{"):
            return self.split_assignment()
        name = self.next()
        if name[0] != "name" or (name[1] in _KEYWORDS and name[1] != "in"):
            raise UnsupportedError(f"statement starting with {name[1]!r}")
        if self.peek() == "(":
            arguments = self.arguments()

            def call(env: Env) -> None:
                function = env.functions.get(name[1])
                if not function:
                    raise UnsupportedError(f"call of {name[1]}")
                function(env, *[a(env) for a in arguments])

            return call
        chain = self.chain()
        op = self.next()[1]
        if op not in ("=", "+=", "-=", "*="):
            raise UnsupportedError(f"operator {op!r} in a statement")
        if op == "=" and self.peek() == "lambda":
            return self.function_definition(name[1])
        targets = [(name[1], chain)]
        while True:  # a = b = c
            start = self.at
            following = self.next()
            if (
                op == "="
                and following[0] == "name"
                and following[1] not in _KEYWORDS
                and self.peek() != "("
            ):
                more = self.chain()
                if self.take("="):
                    targets.append((following[1], more))
                    continue
            self.at = start
            break
        value = self.expression()
        if op != "=":
            old, new, sign = self.reader(name[1], chain), value, op[0]
            value = lambda env: arithmetic(sign, old(env), new(env))  # noqa: E731

        def assign(env: Env) -> None:
            result = value(env)
            for target, steps in targets:
                store(env, target, steps, result)

        return assign

    def split_assignment(self) -> Statement:
        targets = []
        while True:
            name = self.next()[1]
            targets.append((name, self.chain()))
            if not self.take(","):
                break
        self.expect("}")
        self.expect("=")
        value = self.expression()

        def run(env: Env) -> None:
            bits = bits_of(value(env))
            for name, chain in reversed(targets):
                kind, width = type_of_suffix(chain[-1][1]) or ("b", 1)
                store(env, name, chain, from_bits(kind, width, bits & mask(width)))
                bits >>= width

        return run

    def function_definition(self, name: str) -> Statement:
        self.expect("lambda")
        self.expect("(")
        parameters = []
        while not self.take(")"):
            parameters.append(self.next()[1])
            self.take(",")
        self.expect("(")
        start = self.at
        body: Statement
        try:
            value = self.expression()
            self.expect(")")

            def body(env: Env) -> None:
                raise ReturnError(value(env))
        except UnsupportedError:
            self.at = start
            body = self.block(")")
            self.expect(")")

        def call(env: Env, *arguments: V) -> V:
            inner = env.child()
            inner.vars.update(zip(parameters, arguments, strict=False))
            try:
                body(inner)
            except ReturnError as result:
                return result.value
            raise UnsupportedError(f"{name} returned nothing")

        def define(env: Env) -> None:
            env.functions[name] = call

        return define

    # ---- expressions ----
    def expression(self) -> Node:
        test = self.binary(0)
        if not self.take("?"):
            return test
        yes = self.expression()
        self.expect(":")
        no = self.expression()
        return lambda env: yes(env) if test(env).x else no(env)

    LEVELS = (
        ("||",),
        ("&&",),
        ("|",),
        ("^",),
        ("&",),
        ("==", "!=", "<>"),
        ("<", ">", "<=", ">="),
        ("<<", ">>"),
        ("+", "-"),
        ("*", "/", "%"),
        ("**",),
    )

    def binary(self, level: int) -> Node:
        if level == len(self.LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while (
            self.peek() in self.LEVELS[level]
            and self.tokens[min(self.at, len(self.tokens) - 1)][0] == "op"
        ):
            op = self.next()[1]
            left = self.combine(op, left, self.binary(level + 1))
        return left

    @staticmethod
    def combine(op: str, a: Node, b: Node) -> Node:
        if op == "||":
            return lambda env: V("u", 1, int(bool(a(env).x) or bool(b(env).x)))
        if op == "&&":
            return lambda env: V("u", 1, int(bool(a(env).x) and bool(b(env).x)))
        if op in ("==", "!=", "<", ">", "<=", ">=", "<>"):

            def test(env: Env) -> V:
                x, y = a(env), b(env)
                if y.kind == "denormal":
                    from pcode_functions import is_denormal

                    return V("u", 1, int(is_denormal(x, y.width)))
                return compare(op, x, y)

            return test
        return lambda env: arithmetic(op, a(env), b(env))

    def unary(self) -> Node:
        if self.take("-"):
            operand = self.unary()

            def negate(env: Env) -> V:
                v = operand(env)
                if is_float(v):
                    return V(v.kind, v.width, -v.x)
                return make("i" if v.kind == "b" else v.kind, v.width, -v.x)

            return negate
        if self.take("+"):
            return self.unary()
        if self.take("~"):
            operand = self.unary()
            return lambda env: (lambda v: make(v.kind, v.width, ~v.x))(operand(env))
        if self.take("!"):
            operand = self.unary()
            return lambda env: V("u", 1, int(not operand(env).x))
        return self.postfix()

    def arguments(self) -> list[Node]:
        self.expect("(")
        result: list[Node] = []
        while not self.take(")"):
            result.append(self.expression())
            if not self.take(","):
                self.expect(")")
                break
        return result

    def postfix(self) -> Node:
        kind, text = self.next()
        if kind in ("sized", "number"):
            value = _number(text)
            base: Node = lambda env: value  # noqa: E731
        elif kind == "cast":
            width, letter = text.split("'")
            type_ = ("bf" if letter == "BF" else letter.lower(), int(width))
            self.expect("(")
            inner = self.expression()
            self.expect(")")
            base = lambda env: cast(*type_, inner(env))  # noqa: E731
        elif text == "(":
            base = self.expression()
            self.expect(")")
        elif text == "{":
            base = self.concatenation()
        elif kind == "name" and text not in _KEYWORDS:
            if self.peek() == "(":
                arguments = self.arguments()

                def base(env: Env) -> V:
                    function = env.functions.get(text)
                    if not function:
                        raise UnsupportedError(f"function {text}")
                    return function(env, *[a(env) for a in arguments])
            else:
                return self.reader(text, self.chain())
        elif text == "in":  # a variable of this name
            return self.reader(text, self.chain())
        else:
            raise UnsupportedError(f"expression at {text!r}")
        chain = self.chain()
        if not chain:
            return base
        return lambda env: walk(env, base(env), chain)

    def concatenation(self) -> Node:
        parts = [self.expression()]
        while self.take(","):
            parts.append(self.expression())
        self.expect("}")

        def run(env: Env) -> V:
            bits = width = 0
            for part in parts:
                v = part(env)
                w = v.width or 32
                bits, width = bits << w | (bits_of(v) & mask(w)), width + w
            return V("b", width, bits)

        return run

    def chain(self) -> list:
        """The indices, slices and type suffixes behind a name."""
        result: list = []
        while True:
            if self.take("["):
                first = self.expression()
                if self.take(":"):
                    result.append(("slice", first, self.expression()))
                elif self.take("+:"):
                    result.append(("part", first, self.expression()))
                else:
                    result.append(("index", first))
                self.expect("]")
            elif self.take("."):
                result.append(("suffix", self.next()[1]))
            else:
                return result

    @staticmethod
    def reader(name: str, chain: list) -> Node:
        def read(env: Env) -> V:
            if name in env.memories:
                return env.memories[name].read(env, chain)
            value = env.vars.get(name)
            if value is None:
                raise UnsupportedError(f"unknown name {name}")
            return walk(env, value, chain)

        return read


def compile_pcode(text: str) -> Statement:
    parser = Parser(text)
    program = parser.block()
    if not parser.at_end():
        raise UnsupportedError(f"text goes on at {parser.tokens[parser.at : parser.at + 4]}")
    return program
