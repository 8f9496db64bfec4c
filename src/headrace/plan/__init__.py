"""Immutable plans: expressions, bound queries, sharing groups, and their text. Standard library only."""
