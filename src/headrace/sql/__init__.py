"""Text to bound queries: the SQL dialect, every error with its place in the text.

The way of a text: ``lexer`` cuts it into tokens and statements, ``statements`` reads heads and clauses, ``windows``
cuts out how far back a query looks, ``refusals`` names what is not run and ``slips`` what is missing, ``grammar`` has
sqlglot parse the SELECT part, ``select`` and ``lowering`` bind it, ``script`` keeps the state and ``places`` where
all was written, for what is found later. The only package that imports sqlglot.
"""

from headrace.sql.places import Places
from headrace.sql.script import Script, read_script

__all__ = ["Places", "Script", "read_script"]
