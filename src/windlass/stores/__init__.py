"""Incremental evaluation techniques over partials; each file is one algorithm and can be used alone.

| store | ⊕ a round, amortised / worst | partials | serves | many ranges |
|---|---|---|---|---|
| Recompute | n - 1 / n - 1 | n | any aggregate | yes |
| SubtractOnEvict | 2 / 2 | n | invertible | |
| FlatFAT | log n / log n; up to 3 log n if ordered or n no power of two | 2n to 4n | any | yes |
| BInt | 2 log n / 3 log n | 2n to 4n | any | yes |
| FlatFIT | 3 / n - 1 | n and n pointers | any | yes |
| TwoStacks | 3 / n | n | any | |
| DABA | 5 / 6 | n | any | |
| SlickDeque | 2 / 2 invertible, < 2 / n selective | n; 1 to n | invertible or selective | yes |
| FiBA | O(1) in order, O(log d) at distance d / O(log n) | n and n / min_arity | any, in any order | yes |
| ClassicBTree | O(log n) / O(log n) | n and n / min_arity | any, in any order | yes |
"""

from windlass.stores.bint import BInt
from windlass.stores.daba import DABA
from windlass.stores.fiba import ClassicBTree, FiBA
from windlass.stores.flatfat import FlatFAT
from windlass.stores.flatfit import FlatFIT
from windlass.stores.recompute import Recompute
from windlass.stores.slick_deque import SlickDeque
from windlass.stores.slick_deque_inv import SlickDequeInv
from windlass.stores.slick_deque_non_inv import SlickDequeNonInv
from windlass.stores.store import Store
from windlass.stores.subtract_on_evict import SubtractOnEvict
from windlass.stores.two_stacks import TwoStacks

__all__ = [
    "DABA",
    "BInt",
    "ClassicBTree",
    "FiBA",
    "FlatFAT",
    "FlatFIT",
    "Recompute",
    "SlickDeque",
    "SlickDequeInv",
    "SlickDequeNonInv",
    "Store",
    "SubtractOnEvict",
    "TwoStacks",
]
