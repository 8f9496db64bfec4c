"""GROUP BY and HAVING: what the outputs of a query with aggregates may read, and as what.

Owns the keys, the list of aggregates (equal ones are one), and the lowering of expressions over a *group's row*: an
expression that is a key of GROUP BY, equal after binding, is that key; an aggregate is a column of the row; any other
column of a stream is an error. Every part of an expression is compared with the keys, which costs its size times its
depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from headrace.model import INTERVAL, NULL
from headrace.plan.aggregates import Aggregate, Grouping, aggregate_ref, key_ref
from headrace.plan.expressions import Expression, columns_of
from headrace.sql.aggregates import first_aggregate, is_aggregate, read_aggregate, refuse_aggregates
from headrace.sql.grammar import Node, unwrap
from headrace.sql.lowering import Lowering

_GROUPS = "group by columns, or expressions over them"


def has_groups(tree: Node) -> bool:
    """Whether a SELECT gives rows of groups: it has GROUP BY, HAVING, or an aggregate in its list."""
    return bool(
        tree.args.get("group") or tree.args.get("having") or any(first_aggregate(one) for one in tree.expressions)
    )


class GroupLowering(Lowering):
    """Lowers the expressions of SELECT and HAVING in a query with groups; ``rows`` lowers those over the streams."""

    def __init__(self, rows: Lowering, tree: Node) -> None:
        super().__init__(rows.source, rows.scope, rows.whole)
        self.rows = rows
        self.tree = tree
        self._aliases = {
            one.alias.lower(): one.this for one in tree.expressions if isinstance(one, exp.Alias) and one.alias
        }
        self._sees_aliases = False
        self._check_groups()
        self.keys = self._keys()
        self.aggregates: list[Aggregate] = []

    def grouping(self) -> Grouping:
        """What was found, once all outputs are lowered."""
        clause = self.tree.args.get("having")
        having = None if clause is None else self._having(clause)
        return Grouping(self.keys, tuple(self.aggregates), having)

    def lower(self, node: Node) -> Expression:
        """An expression over the group's row."""
        if is_aggregate(node):
            return self._folded(node)
        if self._sees_aliases and self._alias(node) is not None:
            return self._of_alias(node)
        if first_aggregate(node) is None and not self._reads_alias(node):
            over_rows = self.rows.lower(node)
            if over_rows in self.keys:
                return key_ref(self.keys.index(over_rows), over_rows)
            if not columns_of(over_rows):
                return over_rows
            if isinstance(node, exp.Column):
                raise self._ungrouped(node)
        return super().lower(node)

    def aggregate(self, node: Node) -> Aggregate:
        """The aggregate of the query that a node is."""
        found = read_aggregate(self.rows, node)
        if found not in self.aggregates:
            self.aggregates.append(found)
        return found

    def _folded(self, node: Node) -> Expression:
        found = self.aggregate(node)
        return aggregate_ref(self.aggregates.index(found), found)

    def _ungrouped(self, node: Node) -> Exception:
        text = self.source.shown(self.span(node))
        return self.source.error(
            f"{text} is neither in GROUP BY nor in an aggregate",
            self.span(node),
            f"put it into GROUP BY, or aggregate it: MAX({text})",
        )

    def _check_groups(self) -> None:
        having = self.tree.args.get("having")
        if not self.tree.args.get("group") and not any(map(first_aggregate, (having, *self.tree.expressions))):
            raise self.source.error(
                "HAVING is for groups, and this query has none", self.span(having), "write the condition in WHERE"
            )

    # --- HAVING

    def _having(self, clause: Node) -> Expression:
        self._sees_aliases = True
        return self.condition(clause.this, "HAVING")

    def _alias(self, node: Node) -> Node | None:
        """The SELECT item that a bare name means: one that no stream has as a column, and no text in double quotes."""
        if not isinstance(node, exp.Column) or node.args.get("table") or not isinstance(node.this, exp.Identifier):
            return None
        if node.this.args.get("quoted") and self.source.slice(self.span(node.this)).startswith('"'):
            return None
        return None if self.scope.has(node.name) else self._aliases.get(node.name.lower())

    def _reads_alias(self, node: Node) -> bool:
        return self._sees_aliases and any(self._alias(one) is not None for one in node.find_all(exp.Column))

    def _of_alias(self, node: Node) -> Expression:
        self._sees_aliases = False
        try:
            return self.lower(self._alias(node))
        finally:
            self._sees_aliases = True

    # --- GROUP BY

    def _keys(self) -> tuple[Expression, ...]:
        clause = self.tree.args.get("group")
        if clause is None:
            return ()
        self._check_clause(clause)
        found: list[Expression] = []
        for node in _flat(clause.expressions):
            key = self._key(node)
            if key not in found:
                found.append(key)
        return tuple(found)

    def _check_clause(self, clause: Node) -> None:
        odd = (exp.Rollup, exp.Cube, exp.GroupingSets)
        nodes = [*_flat(clause.expressions)]
        if any(value for name, value in clause.args.items() if name != "expressions") or any(
            isinstance(node, odd) for node in nodes
        ):
            raise self.source.unsupported(
                "GROUP BY takes only expressions here", self.span(clause), "write one query for each grouping"
            )
        if not nodes:
            raise self.source.error("GROUP BY names nothing", self.span(clause), "leave GROUP BY out")

    def _key(self, node: Node) -> Expression:
        meant = self._item(node)
        if meant is not None and first_aggregate(meant) is not None:
            shown = self.source.shown(self.span(node))
            raise self.source.error(f"{shown} is an aggregate in SELECT", self.span(node), _GROUPS)
        refuse_aggregates(self.rows, node, "in GROUP BY", _GROUPS)
        key = self.rows.lower(node if meant is None else meant)
        if key.type in (INTERVAL, NULL):
            hint = "group by a time's parts, such as DATE_TRUNC('minute', a.ts)" if key.type == INTERVAL else _GROUPS
            raise self.source.error(f"a group's key cannot be {key.type}", self.span(node), hint)
        if not columns_of(key):
            message = f"{self.source.shown(self.span(node))} is the same for all rows"
            raise self.source.error(message, self.span(node), _GROUPS)
        return key

    def _item(self, node: Node) -> Node | None:
        """The SELECT item that a position or an alias means."""
        inner = unwrap(node)
        if not isinstance(inner, exp.Literal) or inner.is_string or not inner.this.isdigit():
            return self._alias(inner)
        items = self.tree.expressions
        if not 1 <= int(inner.this) <= len(items):
            message = f"SELECT has no column {inner.this}"
            raise self.source.error(message, self.span(node), f"write a number from 1 to {len(items)}, or a column")
        return items[int(inner.this) - 1].unalias()


def _flat(nodes: Sequence[Node]) -> Iterator[Node]:
    """Expressions of GROUP BY, those in brackets one by one."""
    for node in nodes:
        if isinstance(node, exp.Tuple):
            yield from _flat(node.expressions)
        else:
            yield node
