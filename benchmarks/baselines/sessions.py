"""Open sessions, sorted by time: what an event that arrives does to them. There are never many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def joining(load: Callable[..., Any], store: Callable[..., Any], combine: Callable[..., Any]) -> Callable[..., Any]:
    """`join(first, last, partials, n, t, gap, x) -> n`: the event (t, x) begins, extends or unites sessions.

    The functions are an aggregate's, or those of `bounds_only`.
    """

    def join(first: Any, last: Any, partials: Any, n: Any, t: Any, gap: Any, x: Any) -> Any:
        k = n
        while k > 0 and first[k - 1] - gap > t:
            k -= 1
        if k == 0 or t > last[k - 1] + gap:
            j = n
            while j > k:
                first[j], last[j] = first[j - 1], last[j - 1]
                store(partials, j, load(partials, j - 1))
                j -= 1
            first[k], last[k] = t, t
            store(partials, k, x)
            return n + 1
        k -= 1
        first[k], last[k] = min(first[k], t), max(last[k], t)
        store(partials, k, combine(load(partials, k), x))
        if k > 0 and first[k] - gap <= last[k - 1]:
            last[k - 1] = last[k]
            store(partials, k - 1, combine(load(partials, k - 1), load(partials, k)))
            n = drop(first, last, partials, n, k)
        return n

    def drop(first: Any, last: Any, partials: Any, n: Any, k: Any) -> Any:
        for j in range(k, n - 1):
            first[j], last[j] = first[j + 1], last[j + 1]
            store(partials, j, load(partials, j + 1))
        return n - 1

    return join


def dropping(load: Callable[..., Any], store: Callable[..., Any]) -> Callable[..., Any]:
    """`drop_first(first, last, partials, n) -> n`."""

    def drop_first(first: Any, last: Any, partials: Any, n: Any) -> Any:
        for j in range(n - 1):
            first[j], last[j] = first[j + 1], last[j + 1]
            store(partials, j, load(partials, j + 1))
        return n - 1

    return drop_first


def load_nothing(columns: Any, i: Any) -> Any:
    return 0


def store_nothing(columns: Any, i: Any, x: Any) -> Any:
    pass


def combine_nothing(a: Any, b: Any) -> Any:
    return 0


bounds_only = (load_nothing, store_nothing, combine_nothing)
