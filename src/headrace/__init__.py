"""Many continuous SQL queries with sliding-window joins over shared streams, as one Spark streaming query.

from headrace import Engine

engine = Engine(spark)
engine.sql(open("queries.sql").read())
run = engine.start(out="results")
"""

from typing import TYPE_CHECKING, Any

from headrace.config import Settings
from headrace.errors import HeadraceError, SqlError

if TYPE_CHECKING:
    from headrace.spark.session import Engine, Run

__version__ = "0.1.0"
__all__ = ["Engine", "HeadraceError", "Run", "Settings", "SqlError", "__version__"]


def __getattr__(name: str) -> Any:
    """Engine and Run bring Spark with them, so they are imported when first asked for."""
    if name in ("Engine", "Run"):
        from headrace.spark import session

        return getattr(session, name)
    raise AttributeError(f"module headrace has no attribute {name}")
