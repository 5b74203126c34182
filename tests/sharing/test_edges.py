"""Edges: fragments, the bit set and F1, against enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import lcm, prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import Band, Cumulate, Landmark, Session, Sliding, Tumbling, agg
from windlass.errors import InvalidArgument, WrongType
from windlass.sharing import ACQ, bit_set, composite_slide, edges_of, f1
from windlass.sharing.bit_set import BitSet
from windlass.sharing.counters import F1, counter_for
from windlass.sharing.f1 import TooManyTerms, edge_rate, pruned
from windlass.sharing.fragments import FRAGMENTS

progressions = st.integers(1, 24).flatmap(lambda p: st.tuples(st.integers(0, p - 1), st.just(p)))
several = st.lists(progressions, min_size=1, max_size=7)


def enumerated(found: list[tuple[int, int]]) -> set[int]:
    return {x for a, p in found for x in range(a, lcm(*(p for _, p in found)), p)}


@given(several)
def test_bit_set_and_f1_agree_on_every_input(found: list[tuple[int, int]]) -> None:
    if lcm(*(p for _, p in found)) < 200_000:
        assert f1(found) == bit_set(found) == len(enumerated(found))
    else:
        assert f1(found) == bit_set(found)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_f1_is_equation_2_for_edges_at_multiples_of_slides(slides: list[int]) -> None:
    whole = lcm(*slides)
    printed = sum(
        (-1) ** (size + 1) * whole // lcm(*group)
        for size in range(1, len(slides) + 1)
        for group in combinations(slides, size)
    )
    assert f1([(0, s) for s in slides]) == printed


@given(several)
def test_what_is_pruned_lies_in_what_is_kept(found: list[tuple[int, int]]) -> None:
    kept = pruned(found)
    if lcm(*(p for _, p in found)) < 200_000:
        span = range(lcm(*(p for _, p in found)))
        assert {x for x in span for a, p in found if x % p == a} == {x for x in span for a, p in kept if x % p == a}
    for a, p in kept:
        assert not any(p % q == 0 and a % q == b for b, q in kept if (b, q) != (a, p))


def test_example_2_of_the_paper() -> None:
    # Figure 15: slides 2 and 4, edges at 2 and 4 of a composite slide of 4.
    both = edges_of([ACQ(6, 2), ACQ(8, 4)])
    assert composite_slide(both) == 4
    assert f1(both) == bit_set(both) == 2


def test_f1_is_not_exponential_where_slides_share_few_factors() -> None:
    primes = [p for p in range(50, 1000) if all(p % q for q in range(2, 32))]
    assert len(primes) > 150
    # Coprime: the shares that are free multiply, whatever the number of slides.
    assert edge_rate([(0, p) for p in primes], budget=10) == 1 - prod(1 - Fraction(1, p) for p in primes)
    # All even: half of the points, and among them the same.
    assert edge_rate([(0, 2 * p) for p in primes], budget=1000) == (1 - prod(1 - Fraction(1, p) for p in primes)) / 2
    # All divisors of a number but the small ones.
    divisors = _divisors(7_207_200)
    assert len(divisors) > 200
    assert edge_rate(divisors, budget=2000) == Fraction(bit_set(divisors), composite_slide(divisors))


def _divisors(n: int) -> list[tuple[int, int]]:
    small = [d for d in range(1, 2700) if n % d == 0]
    return [(0, d) for d in sorted({*small, *(n // d for d in small)}) if d >= 20]


def test_f1_says_when_it_gives_up() -> None:
    awkward = [(0, p) for p in range(300, 900)]
    with pytest.raises(TooManyTerms):
        edge_rate(awkward, budget=50)


def test_f1_has_no_largest_number() -> None:
    slides = [(0, 10**15 + k) for k in (37, 91, 159, 187)]
    assert f1(slides) == composite_slide(slides) * edge_rate(slides)


@given(several, several)
def test_counters_put_trees_together(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    exact = float(edge_rate([*a, *b]))
    for counting in ("auto", "f1", "bit set"):
        counter, _ = counter_for([*a, *b], counting)
        assert counter.rate(counter.union(counter.mark(a), counter.mark(b))) == pytest.approx(exact)


def test_a_sample_is_a_good_estimate() -> None:
    awkward = [(k % 7, 300 + 7 * k) for k in range(60)]
    counter = BitSet.sampled(awkward)
    exact = sum(any(x % p == a for a, p in awkward) for x in range(10**6, 10**6 + 20_000)) / 20_000
    assert counter.rate(counter.mark(awkward)) == pytest.approx(exact, rel=0.05)


def test_f1_that_gives_up_is_replaced_by_a_sample() -> None:
    awkward = [(k % 5, 300 + 7 * k) for k in range(120)]
    sample = BitSet.sampled(awkward)
    assert F1().rate(pruned(awkward)) == pytest.approx(sample.rate(sample.mark(awkward)), rel=0.02)


def test_the_way_to_count_is_chosen_by_the_composite_slide() -> None:
    assert counter_for([(0, 4), (0, 6)])[1] == "bit set"
    assert isinstance(counter_for([(0, 10**9), (0, 10**9 + 7)])[0], F1)
    assert counter_for([(0, p) for p in range(300, 900)])[1] == "sample"
    with pytest.raises(InvalidArgument, match="counting is one of"):
        counter_for([(0, 1)], "by hand")
    with pytest.raises(InvalidArgument, match="would not fit"):
        bit_set([(0, 10**9 + 7), (0, 10**9 + 9)])


# --------------------------------------------------------------------------- ACQs and fragments


@given(st.integers(1, 30), st.integers(0, 60), st.integers(-40, 40))
def test_fragments_hold_the_edges_of_windows(slide: int, more: int, offset: int) -> None:
    q = ACQ(slide + more, slide, offset=offset)
    begins = {offset + k * slide for k in range(60)}
    ends = {b + q.range for b in begins}
    for name, cut in FRAGMENTS.items():
        found = cut(q.range, q.slide, q.offset)
        wanted = begins if name == "cutty" else begins | ends
        assert all(any(x % p == a for a, p in found) for x in wanted)
    # Pairs cut nowhere else.
    assert all(
        (x - offset) % slide in (0, q.range % slide)
        for a, p in FRAGMENTS["pairs"](q.range, slide, offset)
        for x in (a,)
    )


def test_an_acq_says_what_is_wrong() -> None:
    with pytest.raises(InvalidArgument, match="longer than the range"):
        ACQ("1m", "2m")
    with pytest.raises(InvalidArgument, match="beyond"):
        ACQ(2**62, 1)
    with pytest.raises(WrongType, match="needs an aggregate"):
        ACQ(5, 3, "sum")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        ACQ(0)
    with pytest.raises(InvalidArgument, match="fragments are one of"):
        edges_of([ACQ(5, 3)], "slices")


def test_acqs_of_windows() -> None:
    assert ACQ.of(Sliding("1m", "5s", offset="1s"), agg.max("x")) == ACQ("1m", "5s", agg.max("x"), offset="1s")
    assert ACQ.of(Tumbling(10), unit=None) == ACQ(10)
    no_slide: list[Any] = [Band(0, 10), Landmark(0, 10), Cumulate(3, 12), Session(5)]
    for window in no_slide:
        with pytest.raises(InvalidArgument, match="is no ACQ"):
            ACQ.of(window)


def test_acqs_print_as_they_are_written() -> None:
    for q in (ACQ("1m", "5s"), ACQ(14, 8, agg.max("x"), offset=3, name="q"), ACQ("2h")):
        assert eval(repr(q).replace("max(x)", "agg.max('x')")) == q
