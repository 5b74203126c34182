"""Where Spark's Python workers come from: its own daemon, that has loaded Windlass before it forks.

    spark.python.daemon.module  windlass.spark.daemon

Without it every worker loads Windlass anew, which takes longer than many a micro-batch, and after each task looks for
garbage in all that it has loaded. What the daemon has loaded, its workers share, and as it is frozen, they do not look.

Spark's own daemon loads nothing, as a process should not fork while it has threads. What is loaded here has one, of
Arrow's allocator, which stops and starts around forks.
"""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Callable
from importlib import import_module

from pyspark import daemon

# What workers load when a task comes.
_MODULES = (
    "pyarrow.dataset",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.worker",
    "windlass.spark.bucket",
    "windlass.wheel.history",
)


def load() -> None:
    """Load what any job needs: modules, and the compiled code of slicers and operators, from the cache on disk."""
    for name in _MODULES:
        import_module(name)

    import pyarrow as pa

    from windlass import Query, Tumbling, agg
    from windlass.operator.operator import Operator
    from windlass.operator.slicer import Slicer

    query = Query("count", Tumbling(10), agg.count())
    events = pa.table({"ts": [1, 12], "k": [0, 1]})
    slicer = Slicer(query, events.schema, time="ts", key="k")
    slicer.process(events)
    operator = Operator(query, time="ts", key="k")
    operator.bind(events.schema)
    operator.process_slices(slicer.take())
    operator.finish().to_arrow()
    gc.collect()
    gc.freeze()


def until_closed(worker: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """A worker that Spark has no more use for finds its socket closed: no failure, and nothing to print."""

    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except ConnectionError:  # a broken pipe, or a reset
            return 1

    return run


if __name__ == "__main__":
    daemon.worker = until_closed(daemon.worker)  # type: ignore[assignment]
    if sys.argv[1:] == ["pyspark.worker"]:  # there are daemons for other purposes, too
        load()
    daemon.manager()
