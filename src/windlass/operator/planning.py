"""Who shares slices with whom in an operator: trees of queries, each a branch, from the first event to the last.

    before events      as was asked, or one branch
    the first ones     `look`: planned for what is seen; no slice holds an event yet, so branches are made anew
    every few batches  `look_again`: a branch may be split, but no two are put together

A query that is added while the stream runs has a branch of its own until the next events come; then `joined` lets it
share the slices of another, if that can be and pays. What plans are made by is in `trees` and `replanning`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from windlass.aggregates.values import ValueType
from windlass.operator.branch import Branch
from windlass.operator.costs import STORES, Observed
from windlass.operator.plan import sharing
from windlass.operator.query import Query
from windlass.operator.replanning import Watched, better, part_of
from windlass.operator.sharing import ASKED, checked_rate, explained
from windlass.operator.trees import Asked, Tree, assumed, observed, pays_together, planned
from windlass.slicing.edges import LONG_AGO
from windlass.stateful import Stateful

__all__ = ["Planning"]

Types = Mapping[str, ValueType]


class Planning(Stateful):
    """What was asked, what was seen, and the branches that come of it."""

    def __init__(self, asked: Asked, pin: Iterable[Tree] | None) -> None:
        self.asked = asked  # with no unit yet
        self.pin = (
            None if pin is None else [(tree.queries, tree.technique) for tree in pin]
        )  # trees that were asked for
        self.observed: tuple[float, int, int] | None = None  # what the plan was made from
        self.watched = Watched()
        self.removals = 0

    def branch(self, queries: list[Query], since: int = LONG_AGO, technique: str = "auto") -> Branch:
        asked = self.asked
        store = STORES.get(technique, asked.store)
        learns = asked.store == asked.technique == "auto" and (self.pin is None or technique == "auto")
        return Branch(queries, asked.in_order, store, asked.keyed, asked.slicing, since, learns)

    def grown(self, queries: Sequence[Query], since: int, types: Types, unit: str | None) -> list[Branch]:
        """A branch for each tree of these queries: as was asked, as is planned, or one until something is observed."""
        by_name = {query.name: query for query in queries}
        trees = [Tree(tuple(by_name), self.asked.technique)]
        if self.pin is not None:
            trees = [Tree(tuple(n for n in names if n in by_name), technique) for names, technique in self.pin]
        elif self.observed is not None:
            trees = planned(queries, self._asked(unit), Observed(*self.observed), types).trees
        return [
            self.branch(group, since, tree.technique)
            for tree in trees
            for group in sharing([by_name[name] for name in tree.queries], self.asked.in_order)
        ]

    def trees(self, branches: Iterable[Branch]) -> list[Tree]:
        """What these branches are a plan of."""
        techniques = {store: name for name, store in STORES.items()}
        return [
            Tree(tuple(q.name for q in branch.queries), techniques.get(branch.store, "auto")) for branch in branches
        ]

    # ------------------------------------------------------------------ while events come

    def look(
        self, branches: list[Branch], rows: int, span: float, keys: int, types: Types, unit: str | None
    ) -> list[Branch]:
        """The branches for what comes, now that there is something to see."""
        seen = observed(rows, span, keys, unit)
        self.observed = seen.rate, seen.keys, seen.batch
        if self.pin is not None:
            return branches
        mine = [branch for branch in branches if branch.since == LONG_AGO]
        queries = [query for branch in mine for query in branch.queries]
        trees = planned(queries, self._asked(unit), seen, types).trees
        if len(trees) == len(mine) and self.asked.technique == "auto" and all(t.technique == "auto" for t in trees):
            return branches
        by_name = {query.name: query for query in queries}
        grown = [self.branch([by_name[name] for name in tree.queries], LONG_AGO, tree.technique) for tree in trees]
        return grown + [branch for branch in branches if branch.since != LONG_AGO]

    def look_again(
        self, branches: list[Branch], greatest: int, keys: int, types: Types, unit: str | None
    ) -> list[Branch]:
        """The same for a stream that has become another one; all results have to be out."""
        seen = self.watched.look(greatest, keys, unit)
        if seen is None or self.observed is None or self.pin is not None or tuple(seen) == self.observed:
            return branches
        self.observed = seen.rate, seen.keys, seen.batch
        asked, known = self._asked(unit), tuple(sorted(types.items()))
        found = []
        for branch, tree in zip(branches, self.trees(branches), strict=True):
            trees = better(tuple(branch.queries), tree.technique, asked, seen, known) if branch.engine else ()
            found += self.split(branch, trees, keys) if trees else [branch]
        return found

    def split(self, branch: Branch, trees: Sequence[Tree], keys: int) -> list[Branch]:
        """A branch for each tree, with all that this one has."""
        parts = []
        for tree in trees:
            gone = [query.name for query in branch.queries if query.name not in tree.queries]
            part = part_of(branch, {name: self.gone(name) for name in gone}, keys) if gone else branch
            learned = part.running.choice is not None and part.running.choice.store != part.plan.chosen
            if STORES.get(tree.technique, part.store) != part.store and not learned:
                part.answer_by(STORES[tree.technique])
            parts.append(part)
        return parts

    # ------------------------------------------------------------------ while queries come and go

    def added(self, query: Query) -> None:
        if self.pin is not None and not any(query.name in names for names, _ in self.pin):
            self.pin = [*self.pin, ((query.name,), "auto")]

    def joined(
        self, branches: Iterable[Branch], fresh: Iterable[Branch], types: Types, unit: str | None
    ) -> list[Branch]:
        """Those of the fresh branches whose queries now share the slices of another."""
        if self.pin is not None or self.observed is None:
            return []
        asked, seen = self._asked(unit), Observed(*self.observed)
        found: list[Branch] = []
        for added in fresh:
            for branch in branches:
                if branch is added or branch in found or not branch.can_take_in(added):
                    continue
                if pays_together(branch.queries, added.queries, asked, seen, types):
                    branch.take_in(added)
                    found.append(added)
                    break
        return found

    def removed(self, name: str) -> None:
        if self.pin is not None:
            left = [(tuple(n for n in names if n != name), technique) for names, technique in self.pin]
            self.pin = [(names, technique) for names, technique in left if names]

    def gone(self, name: str) -> str:
        """What a query is called once it is removed: another one may have the name later."""
        self.removals += 1
        return f"\0{self.removals}\0{name}"

    # ------------------------------------------------------------------ in words

    def explained(self, branches: Sequence[Branch], types: Types, rate: float | None, *, is_running: bool) -> str:
        """What the plan costs, and what others would; with a `rate`, for so many events a second."""
        unit, queries = branches[0].plan.unit, [query for branch in branches for query in branch.queries]
        seen = assumed(unit) if self.observed is None else Observed(*self.observed)
        source = "planned as observed" if is_running else "to be planned when events come, as it is assumed now"
        if rate is not None:
            seen = seen._replace(rate=checked_rate(rate) / (1.0 if unit is None else 1e6))
            source = "planned for this rate"
        asked = self._asked(unit)
        found = planned(queries, asked, seen, types, others=True)
        if self.pin is not None or (rate is None and is_running):
            found = found.instead(self.trees(branches), queries, asked, types)
            source = source if self.pin is None else ASKED
        return explained(found, source)

    def _asked(self, unit: str | None) -> Asked:
        return replace(self.asked, unit=unit)
