"""Fetches the jars of Spark's Kafka connector into a directory, by their coordinates: ``python fetch_jars.py DIR``.

For images and for machines without a registry: what is fetched once is given to each run by ``SET jars = 'DIR'`` (or
``HEADRACE_JARS``). The connector is that of the installed Spark, or the one that stands in for it where Maven Central
does not have it.
"""

import sys

from headrace.spark.fetching import main

main(sys.argv[1:])
