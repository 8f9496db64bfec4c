"""Multi-way joins as trees of joins of two, which keep what comes in between: paper 001, section 4.1.

    ((a b) (c d))            join 2                 states    a  b  c  d  and in between  a b  c d
                            /      \\                half-way  a with b's state, b with a's; a b with c d's state, ...
                       join 0      join 1           path a    a with b's state, then a b with c d's state
                       /    \\      /    \\
                      a      b    c      d

A join has two *half-way joins*, one for each child: new tuples of that child probe the state of the other. A tuple of a
stream is joined along its *path*, from its leaf to the root. Every child of a join is a *state*: those of streams get
all that arrives, those in between (*susceptible* states) get only what the joins below them find, and become stale
where these are starved. A tree over k streams has k - 2 susceptible states, whatever its shape (lemma 2).

Owns: :class:`JoinTree` with its joins, states, half-way joins and paths, and its text. Knows nothing of SQL: sides are
numbers from 0, a stream that is joined with itself is there as two sides, and names are only for the text.
Invariants: each side is there once. Joins are numbered from the leaves up, children before parents, the root last.
Cost: linear in the sides, the paths of all sides quadratic; worked out once for a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from headrace.errors import PlanError, setting_parts

Sides: TypeAlias = tuple[int, ...]
"""Sides in ascending order: what tells the states of a tree apart, and a state again in another tree."""


class Shape(Enum):
    """How a tree branches."""

    LINEAR = "linear"
    """Every join has a stream on at least one side."""
    SEMI_BUSHY = "semi-bushy"
    """Some joins do, others join two joins."""
    BUSHY = "bushy"
    """Every join has two streams or two joins below it."""


class Child(Enum):
    """One of a join's two."""

    LEFT = "left"
    RIGHT = "right"

    @property
    def other(self) -> Child:
        return Child.RIGHT if self is Child.LEFT else Child.LEFT


@dataclass(frozen=True, slots=True)
class Leaf:
    """A side, by its number."""

    side: int

    @property
    def sides(self) -> Sides:
        return (self.side,)


@dataclass(frozen=True)
class Fork:
    """A join of two nodes."""

    left: Node
    right: Node

    @cached_property
    def sides(self) -> Sides:
        return tuple(sorted((*self.left.sides, *self.right.sides)))


Node: TypeAlias = Leaf | Fork


@dataclass(frozen=True, slots=True)
class HalfWayJoin:
    """New tuples of one child of a join probe the state of the other: the unit that gets a probe allowance.

    ``own`` is the state that these tuples are kept in, ``partner`` the one they probe."""

    join: int
    child: Child
    own: Sides
    partner: Sides

    @property
    def result(self) -> Sides:
        """What its results are made of, which is also the state they are kept in, except at the root."""
        return tuple(sorted((*self.own, *self.partner)))


@dataclass(frozen=True, slots=True)
class TreeJoin:
    """One join of a tree: its number, and its children's sides."""

    number: int
    left: Sides
    right: Sides

    @property
    def sides(self) -> Sides:
        return tuple(sorted((*self.left, *self.right)))

    @property
    def halves(self) -> tuple[HalfWayJoin, HalfWayJoin]:
        return (
            HalfWayJoin(self.number, Child.LEFT, self.left, self.right),
            HalfWayJoin(self.number, Child.RIGHT, self.right, self.left),
        )


@dataclass(frozen=True)
class JoinTree:
    """A tree over sides 0 to n - 1.

    >>> tree = parse_tree("((a b) (c d))", "abcd")
    >>> tree.shape.value, tree.susceptible, [half_text(one, "abcd") for one in tree.path(0)]
    ('bushy', ((0, 1), (2, 3)), ['a with S(b)', 'a b with S(c d)'])
    """

    root: Fork

    def __post_init__(self) -> None:
        if not isinstance(self.root, Fork) or self.root.sides != tuple(range(len(self.root.sides))):
            raise PlanError(f"a tree joins sides 0, 1, ... of at least two, each once: {self.root.sides}")

    @property
    def sides(self) -> range:
        return range(len(self.root.sides))

    @cached_property
    def joins(self) -> tuple[TreeJoin, ...]:
        """From the leaves up, the root last."""
        forks = enumerate(_forks(self.root))
        return tuple(TreeJoin(number, fork.left.sides, fork.right.sides) for number, fork in forks)

    @cached_property
    def half_ways(self) -> tuple[HalfWayJoin, ...]:
        """Two a join, in the order of the joins, the left child first."""
        return tuple(half for join in self.joins for half in join.halves)

    @cached_property
    def states(self) -> tuple[Sides, ...]:
        """What tuples are kept of: a state for each side, then those in between from the leaves up."""
        return (*((side,) for side in self.sides), *self.susceptible)

    @cached_property
    def susceptible(self) -> tuple[Sides, ...]:
        """The states in between, which become stale where the joins below are starved: two less than sides."""
        return tuple(join.sides for join in self.joins[:-1])

    @cached_property
    def paths(self) -> tuple[tuple[HalfWayJoin, ...], ...]:
        """Definition 3, by side: the half-way joins that its tuples go through, up to the root."""
        return tuple(tuple(one for one in self.half_ways if side in one.own) for side in self.sides)

    def path(self, side: int) -> tuple[HalfWayJoin, ...]:
        return self.paths[side]

    def feeders(self, state: Sides) -> tuple[HalfWayJoin, ...]:
        """The half-way joins whose results a state in between keeps; none for a stream's own state."""
        return next((join.halves for join in self.joins if join.sides == state), ())

    @property
    def shape(self) -> Shape:
        mixed = [(len(join.left) == 1) != (len(join.right) == 1) for join in self.joins]
        if all(len(join.left) == 1 or len(join.right) == 1 for join in self.joins):
            return Shape.LINEAR
        return Shape.SEMI_BUSHY if any(mixed) else Shape.BUSHY

    def text(self, names: Sequence[str]) -> str:
        """As it is written in SQL."""
        return _text(self.root, names)


def linear_tree(order: Sequence[int]) -> JoinTree:
    """The first two joined, then always the next.

    >>> linear_tree((2, 0, 1)).text("abc")
    '((c a) b)'
    """
    if len(order) < 2:
        raise PlanError("a tree joins at least two sides")
    root = Fork(Leaf(order[0]), Leaf(order[1]))
    for side in order[2:]:
        root = Fork(root, Leaf(side))
    return JoinTree(root)


def _forks(node: Node) -> Iterator[Fork]:
    if isinstance(node, Fork):
        yield from _forks(node.left)
        yield from _forks(node.right)
        yield node


# --- text


def _text(node: Node, names: Sequence[str]) -> str:
    if isinstance(node, Leaf):
        return names[node.side]
    return f"({_text(node.left, names)} {_text(node.right, names)})"


def state_text(state: Sides, names: Sequence[str]) -> str:
    """A state as EXPLAIN has it.

    >>> state_text((0, 2), "abc")
    'S(a c)'
    """
    return f"S({_listed(state, names)})"


def half_text(half: HalfWayJoin, names: Sequence[str]) -> str:
    return f"{_listed(half.own, names)} with {state_text(half.partner, names)}"


def _listed(sides: Sides, names: Sequence[str]) -> str:
    return " ".join(names[side] for side in sides)


_TOKENS = re.compile(r"[()]|[^\s()]+")


def is_of(text: str, names: Sequence[str]) -> bool:
    """Whether a text, right or wrong, is about these names.

    >>> is_of("((a b) c", "abc"), is_of("(a b)", "abc")
    (True, False)
    """
    return {one for one in _TOKENS.findall(text) if one not in "()"} == set(names)


def parse_tree(text: str, names: Sequence[str]) -> JoinTree:
    """The tree that a text stands for; each name is there once, and each join is two in parentheses.

    >>> parse_tree("((a b) c", "abc")
    Traceback (most recent call last):
        ...
    headrace.errors.PlanError: plan '((a b) c': it ends within a join, where ')' is missing: write '((a b) c)', say
    """
    if len(names) < 2 or len(set(names)) < len(names):
        raise PlanError(f"a plan is of two names or more, all different: {', '.join(names)}")
    return _Parser(text, names).parse()


class _Parser:
    """Reads a tree from the left; what is wrong is said with a plan that would be right."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._text = text
        self._names = {name: side for side, name in enumerate(names)}
        self._example = linear_tree(range(len(names))).text(names)
        self._tokens = _TOKENS.findall(text)
        self._at = 0
        self._seen: set[str] = set()

    def parse(self) -> JoinTree:
        joins = len(self._names) - 1
        if self._tokens.count("(") > joins:
            raise self._wrong(f"it has more '(' than the {joins} joins of {joins + 1} streams")
        root = self._node()
        if self._at < len(self._tokens):
            raise self._wrong(f"'{self._tokens[self._at]}' is after its end")
        missing = [name for name in self._names if name not in self._seen]
        if missing or isinstance(root, Leaf):
            raise self._wrong(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        return JoinTree(root)

    def _node(self) -> Node:
        token = self._next("a name or '('")
        if token == "(":
            left, right = self._node(), self._node()
            closing = self._next("')'")
            if closing != ")":
                raise self._wrong(f"a join has two parts, and '{closing}' is a third")
            return Fork(left, right)
        if token == ")":
            raise self._wrong("a join has two parts, ')' comes before the second")
        if token not in self._names:
            raise self._wrong(f"'{token}' is not one of {', '.join(self._names)}")
        if token in self._seen:
            raise self._wrong(f"'{token}' is there twice")
        self._seen.add(token)
        return Leaf(self._names[token])

    def _next(self, wanted: str) -> str:
        if self._at == len(self._tokens):
            raise self._wrong(f"it ends within a join, where {wanted} is missing" if self._tokens else "it is empty")
        self._at += 1
        return str(self._tokens[self._at - 1])

    def _wrong(self, message: str) -> PlanError:
        return PlanError(f"plan '{self._text}': {message}", f"write '{self._example}', say", setting_parts("plan"))
