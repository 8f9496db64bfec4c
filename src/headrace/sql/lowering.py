"""Expressions: from sqlglot's tree to Headrace's typed ones.

Owns the meaning of each operator and special form; the functions called by name are in ``calls.py``. Every call is
made by ``plan.functions``, so types are checked and converted there; its complaints are given a place here.

Lowered away: BETWEEN is ``>=`` and ``<=``; NOT IN, NOT LIKE and IS NOT NULL are NOT of the plain form; ``CASE x
WHEN y`` is ``CASE WHEN x = y``; a text beside a TIMESTAMP or DATE is read as one. Depth is bounded, so no query can
exhaust the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from headrace.errors import PlanError, SettingError
from headrace.model import BOOLEAN, DATE, NULL, STRING, TIMESTAMP, DataType
from headrace.plan import functions
from headrace.plan.expressions import Expression, Literal
from headrace.sql.calls import CALLS, SHOWN, check_function, function_hint
from headrace.sql.grammar import Node, span_of_node, unwrap
from headrace.sql.literals import date_literal, interval_literal, number_literal, read_type, time_literal
from headrace.sql.reader import Word
from headrace.sql.scope import Scope
from headrace.sql.text import Span, SqlText

DEEPEST = 100
"""How many expressions may stand inside each other."""

_OPERATORS = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.DPipe: "concat_op",
    exp.Like: "like", exp.ILike: "ilike",
}  # fmt: skip
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_TIMED = frozenset(("=", "<>", "<", "<=", ">", ">=", "in", "-", "coalesce", "nullif", "greatest", "least", "case"))
"""Functions in which a text beside a time is read as a time."""
_PARTS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_CLOCK = tuple(
    getattr(exp, name)
    for name in ("CurrentDate", "CurrentTime", "CurrentTimestamp", "CurrentDatetime", "Localtime", "Localtimestamp")
)


class Lowering:
    """Lowers the expressions of one query."""

    def __init__(self, source: SqlText, scope: Scope, whole: Span) -> None:
        self.source = source
        self.scope = scope
        self.whole = whole
        self._depth = 0

    def span(self, node: Node) -> Span:
        return span_of_node(node) or self.whole

    def lower(self, node: Node) -> Expression:
        """The typed expression of a node."""
        self._depth += 1
        try:
            if self._depth > DEEPEST:
                raise self.source.error("this expression is nested too deeply", self.span(node), "split the query")
            return self._lower(node)
        finally:
            self._depth -= 1

    def _lower(self, node: Node) -> Expression:
        kind = type(node)
        unread = {name for name, value in node.args.items() if value} - _READ.get(kind, _READ_BY_DEFAULT)
        if unread or (kind not in _OPERATORS and kind not in _FORMS):
            raise self._not_run(node)
        operands = (node.args.get("this"), node.args.get("expression"))
        if kind in _COMPARISONS:
            self._check_tested(operands[1])
        lowered = self.call(_OPERATORS[kind], node, operands) if kind in _OPERATORS else _FORMS[kind](self, node)
        return self.made("not", node, (lowered,)) if node.args.get("negate") else lowered

    def _check_tested(self, right: Node | None) -> None:
        """Refuses IS after a comparison without brackets: SQL tests what is compared, and the tree has it otherwise
        (in brackets, which are its own where the text has none)."""
        inner = unwrap(right) if isinstance(right, exp.Paren) else None
        tested = inner.this if isinstance(inner, exp.Not) else inner
        if isinstance(tested, exp.Is) and not self.source.text[: self.span(tested).start].rstrip().endswith("("):
            place = self.span(tested)
            raise self.source.error("IS after a comparison can be read in two ways", place, "write (a = b) IS NULL")

    def _not_run(self, node: Node) -> Exception:
        span = self.span(node)
        text = self.source.shown(span)
        if isinstance(node, _CLOCK):
            return self.source.unsupported(
                f"{text} is not supported: an answer depends on the tuples, not on the clock",
                span,
                "write a constant such as TIMESTAMP '2026-01-31 12:00:00'",
            )
        if isinstance(node, exp.Star | exp.Alias | exp.Distinct):
            return self.source.error(f"{text} cannot stand here", span, "write an expression over columns")
        if isinstance(node, exp.Filter):
            return self.source.error(
                "FILTER stands only after an aggregate", span, "write CASE WHEN condition THEN x END"
            )
        return self.source.unsupported(
            f"{text} is not supported", span, "docs/sql.md lists the operators and functions there are"
        )

    def condition(self, node: Node, clause: str) -> Expression:
        """An expression that must be BOOLEAN."""
        lowered = self.lower(node)
        if lowered.type not in (BOOLEAN, NULL):
            raise self.source.error(
                f"{clause} takes a condition, but this is {lowered.type}",
                self.span(node),
                "compare it with a value",
            )
        return lowered

    def call(self, name: str, node: Node, args: Sequence[Node]) -> Expression:
        """A function of lowered arguments, checked."""
        lowered = [self.lower(arg) for arg in args]
        return self.made(name, node, self._timed(name, args, lowered))

    def made(self, name: str, node: Node, args: Sequence[Expression]) -> Expression:
        """``plan.functions.call`` with its complaint at the node's place."""
        try:
            return functions.call(name, *args)
        except PlanError as error:
            shown = SHOWN.get(name, name.upper())
            message = shown + str(error).removeprefix(name.upper())
            raise self.source.error(message, self.span(node), function_hint(name, args)) from error

    def _timed(self, name: str, nodes: Sequence[Node], args: list[Expression]) -> list[Expression]:
        """Texts read as times where another argument is one."""
        like = next((arg.type for arg in args if arg.type in (TIMESTAMP, DATE)), None)
        if like is None or name not in _TIMED:
            return args
        return [self._as_time(node, arg, like) for node, arg in zip(nodes, args, strict=True)]

    def _as_time(self, node: Node, arg: Expression, like: DataType) -> Expression:
        if not isinstance(arg, Literal) or arg.type != STRING:
            return arg
        return self._read(lambda: time_literal(str(arg.value), like), self.span(node))

    def _read(self, read: Callable[[], Literal], span: Span) -> Literal:
        try:
            return read()
        except SettingError as error:
            message, _, hint = str(error).partition(": ")
            raise self.source.error(message, span, hint) from error

    def column(self, node: Node) -> Expression:
        """A column, or a text in double quotes where a value is expected."""
        name, alias = node.this, node.args.get("table")
        if not isinstance(name, exp.Identifier):
            raise self._not_run(node)
        span = self.span(name)
        if alias is None and name.args.get("quoted") and self.source.slice(span).startswith('"'):
            return self._double_quoted(name.name, span)
        return self.scope.column(Word(name.name, span), Word(alias.name, self.span(alias)) if alias else None)

    def _double_quoted(self, text: str, span: Span) -> Expression:
        if self.scope.has(text):
            raise self.source.error(
                f'"{text}" could be the text or the column',
                span,
                f"write `{text}` for the column, '{text}' for the text",
            )
        return Literal(text, STRING)

    def literal(self, node: Node) -> Expression:
        if node.is_string:
            return Literal(node.this, STRING)
        return self._read(lambda: number_literal(node.this), self.span(node))

    def negated(self, node: Node) -> Expression:
        inner = unwrap(node.this)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return self._read(lambda: number_literal(inner.this, negative=True), self.span(node))
        return self.call("neg", node, (node.this,))

    def connected(self, node: Node) -> Expression:
        """AND or OR of any number of conditions."""
        kind = type(node)
        name = "and" if kind is exp.And else "or"
        waiting, parts = [node], []
        while waiting:
            one = unwrap(waiting.pop())
            if type(one) is kind:
                waiting.extend((one.expression, one.this))
            else:
                parts.append(self.condition(one, name.upper()))
        return self.made(name, node, parts)

    def inverted(self, node: Node) -> Expression:
        return self.made("not", node, (self.condition(node.this, "NOT"),))

    def between(self, node: Node) -> Expression:
        low, high = node.args.get("low"), node.args.get("high")
        if low is None or high is None or not self._parted_by("AND", low, high):
            raise self.source.error("this BETWEEN has no AND", self.span(node), "write x BETWEEN low AND high")
        above = self.call(">=", node, (node.this, low))
        return self.made("and", node, (above, self.call("<=", node, (node.this, high))))

    def _parted_by(self, word: str, left: Node, right: Node) -> bool:
        """Whether a word that sqlglot takes as optional stands between two nodes."""
        return word in self.source.slice(Span(self.span(left).end, self.span(right).start)).upper()

    def among(self, node: Node) -> Expression:
        if not node.expressions:
            raise self.source.error("IN takes a list", self.span(node), "write x IN (1, 2, 3)")
        return self.call("in", node, (node.this, *node.expressions))

    def tested(self, node: Node) -> Expression:
        """IS NULL, IS TRUE, IS FALSE; a NOT stands outside."""
        if isinstance(node.expression, exp.Null):
            return self.call("is_null", node, (node.this,))
        if not isinstance(node.expression, exp.Boolean):
            raise self._not_run(node)
        value = self.condition(node.this, "IS")
        if not node.expression.this:
            value = self.made("not", node, (value,))
        return self.made("coalesce", node, (value, Literal(False, BOOLEAN)))

    def cased(self, node: Node) -> Expression:
        branches = node.args.get("ifs")
        if not branches:
            raise self.source.error(
                "this CASE has no WHEN", self.span(node), "write CASE WHEN condition THEN value END"
            )
        conditions = [self._when(node, branch) for branch in branches]
        return self.chosen(node, conditions, [*(branch.args["true"] for branch in branches), node.args.get("default")])

    def chosen(self, node: Node, conditions: Sequence[Expression], values: Sequence[Node]) -> Expression:
        """The value of the first condition that holds, else the last value (None: NULL)."""
        results = [Literal(None, NULL) if value is None else self.lower(value) for value in values]
        results = self._timed("case", [value or node for value in values], results)
        pairs = [one for pair in zip(conditions, results[:-1], strict=True) for one in pair]
        return self.made("case", node, (*pairs, results[-1]))

    def _when(self, node: Node, branch: Node) -> Expression:
        then = branch.args.get("true")
        if then is None or not self._parted_by("THEN", branch.this, then):
            raise self.source.error("this WHEN has no THEN", self.span(branch), "write WHEN condition THEN value")
        if node.this is None:
            return self.condition(branch.this, "WHEN")
        return self.call("=", branch, (node.this, branch.this))

    def converted(self, node: Node) -> Expression:
        """CAST, TRY_CAST, ``::``, and the literals TIMESTAMP '...' and DATE '...'."""
        to = self._type(node)
        span, inner = self.span(node), unwrap(node.this)
        if isinstance(inner, exp.Literal) and inner.is_string and to in (TIMESTAMP, DATE):
            return self._time_constant(inner.this, to, span)
        arg = self.lower(node.this)
        try:
            return functions.cast(arg, to)
        except PlanError as error:
            hint = f"no {arg.type} has a {to} that means the same: write an expression that makes one"
            raise self.source.error(str(error), span, hint) from error

    def _time_constant(self, text: str, to: DataType, span: Span) -> Expression:
        read = date_literal if to == DATE else lambda one: time_literal(one, TIMESTAMP)
        written_as_literal = self.source.slice(span).upper().startswith(("TIMESTAMP", "DATE"))
        if written_as_literal:
            return self._read(lambda: read(text), span)
        try:
            return read(text)
        except SettingError:
            # A CAST that cannot be done gives NULL, for a constant as for a column.
            return Literal(None, to)

    def _type(self, node: Node) -> DataType:
        kind = node.args["to"]
        numbers = tuple(int(one.name) for one in kind.expressions if one.name.isascii() and one.name.isdigit())
        try:
            return read_type(getattr(kind.this, "name", str(kind.this)), numbers)
        except PlanError as error:
            message, _, hint = str(error).partition("; ")
            raise self.source.error(message, self.span(node), hint) from error

    def interval(self, node: Node) -> Expression:
        count, unit = node.this, node.args.get("unit")
        minus = "-" if isinstance(count, exp.Neg) else ""
        count = count.this if minus else count
        if not isinstance(count, exp.Literal) or not isinstance(unit, exp.Var | None):
            raise self.source.error(
                "an INTERVAL is a number and one unit", self.span(node), "write INTERVAL '5' SECOND"
            )
        return self._read(lambda: interval_literal(minus + count.this, unit.name if unit else None), self.span(node))

    def extracted(self, node: Node) -> Expression:
        part = node.this.name.upper()
        if part not in _PARTS or node.expression is None:
            raise self.source.error(
                f"EXTRACT has no part {part}", self.span(node), f"the parts are {', '.join(_PARTS)}"
            )
        return self.call(part.lower(), node, (node.expression,))

    def substring(self, node: Node) -> Expression:
        parts = (node.this, node.args.get("start"), node.args.get("length"))
        return self.call("substring", node, [part for part in parts if part is not None])

    def named(self, node: Node) -> Expression:
        """A function called by name."""
        name = node.name.lower()
        check_function(self.source, Word(node.name, _name_span(self.span(node), node)))
        special = CALLS.get(name)
        if special is None:
            return self.call(name, node, node.expressions)
        return special(self, node, node.expressions)


def _name_span(span: Span, node: Node) -> Span:
    """The function's name: the first word of the call."""
    return Span(span.start, span.start + max(len(node.name), 1))


_FORMS: dict[type, Callable[[Lowering, Node], Expression]] = {
    exp.Column: Lowering.column,
    exp.Literal: Lowering.literal,
    exp.Null: lambda _lowering, _node: Literal(None, NULL),
    exp.Boolean: lambda _lowering, node: Literal(bool(node.this), BOOLEAN),
    exp.Paren: lambda lowering, node: lowering.lower(node.this),
    exp.Neg: Lowering.negated,
    exp.Not: Lowering.inverted,
    exp.And: Lowering.connected,
    exp.Or: Lowering.connected,
    exp.Between: Lowering.between,
    exp.In: Lowering.among,
    exp.Is: Lowering.tested,
    exp.Case: Lowering.cased,
    exp.Cast: Lowering.converted,
    exp.TryCast: Lowering.converted,
    exp.Interval: Lowering.interval,
    exp.Extract: Lowering.extracted,
    exp.Substring: Lowering.substring,
    exp.Anonymous: Lowering.named,
}

_READ_BY_DEFAULT = frozenset(("this", "expression", "negate", "safe", "typed"))
_READ: dict[type, frozenset[str]] = {
    exp.Column: frozenset(("this", "table")),
    exp.Literal: frozenset(("this", "is_string")),
    exp.Between: frozenset(("this", "low", "high")),
    exp.In: frozenset(("this", "expressions")),
    exp.Case: frozenset(("this", "ifs", "default")),
    exp.Cast: frozenset(("this", "to", "_type")),
    exp.TryCast: frozenset(("this", "to", "_type", "safe", "requires_string")),
    exp.Interval: frozenset(("this", "unit", "fraction_in_string")),
    exp.Substring: frozenset(("this", "start", "length")),
    exp.Anonymous: frozenset(("this", "expressions")),
}
"""Which parts of a node are read; one with any other part is refused, so that none is overlooked."""
