"""What spark-submit starts: the command line, as in ``spark-submit ... deploy/main.py run FILE.sql --out DIR``.

The master, jars and all of Spark's configuration are what spark-submit is told; see docs/deployment.md.
"""

from headrace.cli import main

main()
