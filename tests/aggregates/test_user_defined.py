import math
import operator
import pickle
import warnings
from decimal import Decimal

import numba
import numpy as np
import pyarrow as pa
import pytest

import windlass.aggregates as agg
from windlass.aggregates.values import value_type
from windlass.errors import InterpretedAggregate, InvalidArgument, WrongType
from windlass.stores import TwoStacks

pytestmark = pytest.mark.filterwarnings("error::windlass.errors.InterpretedAggregate")

VALUES = [3.0, 1.0, 2.0, 5.0, 4.0]
SCALE = 10.0


def pair(x):
    return (x, 1)


def add_pairs(a, b):
    return (a[0] + b[0], a[1] + b[1])


def ratio(p):
    return p[0] / p[1]


mean = agg.define("mean", lift=pair, combine=add_pairs, lower=ratio)


def scaled(x):
    return SCALE * x


def through_a_helper(x):
    return scaled(x) + 1.0


@numba.njit
def jitted(a, b):
    return a * b


def monoid(aggregate, *types):
    return aggregate.monoid([value_type(t) for t in types or ("float64",)], subtractable=aggregate.invertible)


# ---------------------------------------------------------------------- compiled


def test_a_tuple_partial():
    assert mean("x").of(VALUES) == 3.0
    assert mean().of([1, 2]) == 1.5
    assert TwoStacks(mean()).slide(np.array(VALUES), window=2).tolist() == [3.0, 2.0, 1.5, 3.5, 4.5]
    assert monoid(mean()).is_compiled and not monoid(mean()).allocates


def test_nulls_are_skipped_and_nothing_gives_null():
    assert mean().of([None, 1.0, None, 3.0]) == 2.0
    assert mean().of(pa.array([None, None], pa.float64())) is None
    assert mean().of(pa.array([], pa.float64())) is None
    assert TwoStacks(mean()).slide(pa.array([None, 2.0, None, None]), window=2).to_pylist() == [None, 2.0, 2.0, None]


def test_a_bare_value_and_builtins():
    biggest = agg.define("biggest", lift=float, combine=max, commutative=True, selective=True)
    assert biggest().of(VALUES) == 5.0
    assert TwoStacks(biggest()).slide(np.array(VALUES), window=2).tolist() == [3.0, 3.0, 2.0, 5.0, 5.0]
    assert biggest().selective and biggest().commutative and not biggest().invertible


def test_an_identity_and_an_inverse():
    total = agg.define("total", lift=lambda x: x, combine=operator.add, identity=0, inverse=operator.sub)
    assert total().of(VALUES) == 15.0  # the identity was an int, the field is a float
    m = monoid(total())
    assert m.inverse(m.combine(m.lift(2.0), m.lift(5.0)), m.lift(2.0))[0] == 5.0
    assert total().invertible and m.is_compiled


def test_an_adjoined_identity_is_never_seen_by_the_functions():
    least = agg.define("least", lift=lambda x: x, combine=lambda a, b: min(a, b), selective=True)
    m = monoid(least())
    e, a = m.identity(), m.lift(7.0)
    assert m.combine(e, a) == a == m.combine(a, e)
    assert not m.defined(e) and m.defined(a)
    assert m.selects(e, a) and not m.selects(a, e) and not m.selects(a, m.lift(8.0))
    agg.check_laws(least(), VALUES)


def test_an_adjoined_identity_with_an_inverse():
    total = agg.define("total", lift=lambda x: x, combine=lambda a, b: a + b, inverse=lambda c, a: c - a)
    m = monoid(total(), "int64")
    a = m.lift(7)
    assert not m.defined(m.inverse(a, a)) and m.inverse(a, m.identity()) == a
    agg.check_laws(total(), [1, 2, None, 3])


def test_several_answers_are_a_struct():
    extremes = agg.define(
        "extremes",
        lift=lambda x: (x, x),
        combine=lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
        fields={"lo": float, "hi": float},
    )
    assert extremes().of([*VALUES, None]) == {"lo": 1.0, "hi": 5.0}
    assert monoid(extremes()).result == pa.struct([("lo", pa.float64()), ("hi", pa.float64())])
    assert extremes().of(pa.array([None], pa.float64())) is None


def test_several_columns():
    vwap = agg.define("vwap", lift=lambda p, v: (p * v, v), combine=add_pairs, lower=ratio)
    assert vwap("price", "volume").of({"price": [10.0, 20.0], "volume": [3, 1]}) == 12.5
    assert vwap().columns == (None, None)
    with pytest.raises(InvalidArgument, match=r"takes 2 column\(s\), got 1"):
        vwap("price")


def test_fields_widen_to_what_the_functions_make_of_them():
    halving = agg.define("halving", lift=lambda x: x, combine=lambda a, b: (a + b) / 2)
    assert halving().of([3, 1, 2]) == 2.0
    assert halving().of([5]) == 5.0
    many = agg.define("many", lift=lambda x: x > 2, combine=lambda a, b: a + b, identity=0)
    assert many().of([1, 3, 5]) == 2
    top = agg.define("top", lift=lambda x: x, combine=max)
    assert top().of(np.array([2**64 - 1, 3], np.uint64)) == 2**64 - 1


def slid(values, **parts):
    aggregate = agg.define("made", **({"lift": lambda x: x, "combine": operator.add} | parts))()
    return TwoStacks(aggregate).slide(np.array(values), window=2).tolist()


@pytest.mark.parametrize("compile", [True, False])
def test_what_one_sample_does_not_show_is_not_cut_off(compile):
    large = {"lift": lambda x: x if x > 10 else 0, "compile": compile}
    assert slid([12.7, 3.0, 11.6], **large) == [12.7, 12.7, 11.6]
    unlike = {"combine": lambda a, b: a if a == b else (a + b) / 2, "compile": compile}
    assert slid([1, 2, 4], **unlike) == [1.0, 1.5, 3.0]
    later = {"lift": pair, "combine": add_pairs, "lower": lambda p: 0 if p[1] < 2 else p[0] / p[1], "compile": compile}
    assert slid([1, 2, 3, 4], **later) == [0.0, 1.5, 2.5, 3.5]
    arrays = {"lift": lambda x: np.array([x, x]), "combine": lambda a, b: (a + b) / 2, "lower": lambda p: p[0]}
    assert slid([1, 2, 4], compile=compile, **arrays) == [1.0, 1.5, 3.0]


def test_what_no_sample_shows_is_seen_when_it_is_compiled():
    assert slid([1012.7, 3.0, 1011.6], lift=lambda x: x if x > 1000 else 0) == [1012.7, 1012.7, 1011.6]
    assert slid([1, 500], lower=lambda p: 0 if p < 500 else p / 2) == [0.0, 250.5]
    assert slid([1, 2], combine=lambda a, b: a + b if a + b < 300 else a / 2) == [1.0, 3.0]
    assert slid([1, 500], lower=lambda p: p > 2 if p < 500 else 7) == [0, 7]


def test_what_no_sample_shows_is_refused_where_it_is_interpreted():
    large = {"lift": lambda x: x if x > 1000 else 0, "compile": False}
    assert slid([1012.0, 3.0], **large) == [1012, 1012]
    with pytest.raises(WrongType, match=r"1012\.7 does not fit int64.*result="):
        slid([1012.7, 3.0], **large)
    assert slid([1012.7, 3.0], result="float64", **large) == [1012.7, 1012.7]
    with pytest.raises(WrongType, match=r"does not fit int64.*result="):
        slid([2**62, 2**62], compile=False)
    with pytest.raises(WrongType, match=r"'a' does not fit int64.*result="):
        slid([1, 500], lower=lambda p: 0 if p < 500 else "a", compile=False)


def test_types_that_are_given_must_hold_what_the_functions_give():
    with pytest.raises(WrongType, match="float64 for the field 'n', fields= says int64"):
        slid([1.5], fields={"n": int})
    with pytest.raises(WrongType, match="can be float64, result= says int64"):
        slid([1.5], result="int64")
    assert slid([1, 2], fields={"n": float}) == [1.0, 3.0]


def test_unsigned_integers_are_exact():
    exact = agg.define("exact", lift=lambda x: x, combine=lambda a, b: (a + b) * 1)
    with pytest.warns(InterpretedAggregate, match=r"samples give uint64, the compiled functions \w+64"):
        assert exact().of(np.array([2**60 + 1, 2], np.uint64)) == 2**60 + 3
    total = agg.define("total", lift=lambda x: x, combine=operator.add)
    assert total().of(np.array([2**63 + 1, 2], np.uint64)) == 2**63 + 3
    assert monoid(total(), "uint64").is_compiled


def test_samples_that_a_function_is_not_for_are_left_out():
    assert agg.define("root", lift=lambda x: x**0.5, combine=max)().of([4.0, 9.0]) == 3.0
    assert agg.define("log", lift=math.log, combine=max)().of([1.0]) == 0.0
    assert agg.define("reciprocal", lift=lambda x: 1 / x, combine=max)().of([4, 2]) == 0.5


def test_inverse_and_selects_are_both_compiled():
    both = {"lift": lambda x: x, "combine": max, "inverse": lambda c, a: c}
    unfit = agg.define("unfit", selects=lambda a, b: f"{a:.1f}" <= f"{b:.1f}", **both)
    with pytest.warns(InterpretedAggregate):
        assert not monoid(unfit()).is_compiled
    assert monoid(agg.define("fit", selects=lambda a, b: a <= b, **both)()).is_compiled


def test_array_partials_compile():
    def bins(x):
        counts = np.zeros(3, np.int64)
        counts[min(int(x), 2)] = 1
        return counts

    histogram = agg.define("histogram", lift=bins, combine=lambda a, b: a + b, lower=lambda p: p[1] / p.sum())
    m = monoid(histogram())
    assert m.is_compiled and m.allocates and m.fields[0].shape == (3,)
    assert histogram().of([0.5, 1.5, 1.9, 7.0]) == 0.5


def test_temporary_arrays_compile():
    biggest = agg.define("biggest", lift=lambda x: x, combine=lambda a, b: np.array([a, b]).max())
    assert biggest().of(VALUES) == 5.0
    assert monoid(biggest()).is_compiled and monoid(biggest()).allocates


def test_helpers_constants_and_jitted_functions():
    assert agg.define("a", lift=through_a_helper, combine=max)().of(VALUES) == 51.0
    assert agg.define("b", lift=lambda x: x, combine=jitted, identity=1)().of(VALUES) == 120.0


def test_times_are_integers_unless_a_result_type_is_given():
    latest = {"lift": lambda t: t, "combine": max}
    times = pa.array([1_000_000, 3_000_000], pa.timestamp("us"))
    assert agg.define("latest", **latest)().of(times) == 3_000_000
    assert agg.define("latest", result=pa.timestamp("us"), **latest)().of(times).second == 3


def test_numba_divides_as_numpy_does():
    assert math.isinf(agg.define("d", lift=lambda x: 1.0 / x, combine=max)().of([0.0, 2.0]))


# ---------------------------------------------------------------------- interpreted


def longest(a, b):
    return a if len(a) >= len(b) else b


def test_objects_run_interpreted_and_say_so_once():
    words = agg.define("words", lift=lambda x: x, combine=longest)
    with pytest.warns(
        InterpretedAggregate, match=r"words runs interpreted.*values of string are Python objects"
    ) as told:
        assert words().of(["a", None, "ccc", "bb"]) == "ccc"
    assert len(told) == 1
    assert told[0].filename == __file__  # the line of the user's
    assert words().of(pa.array(["x"], pa.large_string())) == "x"  # not told again
    assert "Python objects" in monoid(words(), "string").interpreted


def test_list_partials():
    listing = agg.define("listing", lift=lambda x: [x], combine=lambda a, b: a + b, identity=[])
    with pytest.warns(InterpretedAggregate, match="its partials hold Python objects"):
        assert listing().of([3, None, 1]) == [3, 1]
    assert [list(w) for w in TwoStacks(listing()).slide(np.array([1, 2, 3]), window=2)] == [[1], [1, 2], [2, 3]]


def not_for_numba(x):
    return float(f"{x:.1f}")


def test_the_reason_is_numbas_and_names_the_place():
    rounded = agg.define("rounded", lift=not_for_numba, combine=lambda a, b: a + b)
    with pytest.warns(InterpretedAggregate) as told:
        assert rounded().of([1.25, 2.0]) == pytest.approx(3.2)
    assert "format spec in f-strings" in str(told[0].message)
    assert "test_user_defined.py" in str(told[0].message)
    assert monoid(rounded()).interpreted in str(told[0].message)


def test_compile_false_is_silent_and_has_python_numbers():
    power = agg.define("power", lift=lambda x: x, combine=lambda a, b: a * b, lower=str, compile=False)
    assert power().of([2**40, 2**40]) == str(2**80)
    assert monoid(power(), "int64").interpreted == "it was defined with compile=False"


def test_an_answer_may_be_none_where_it_is_interpreted():
    picky = agg.define(
        "picky", lift=lambda x: x, combine=max, lower=lambda p: p if p > 2 else None, result="float64", compile=False
    )
    assert picky().of([1.0]) is None and picky().of([3.0]) == 3.0


def test_decimals_and_dicts():
    total = agg.define("total", lift=lambda x: x, combine=lambda a, b: a + b, compile=False)
    assert total().of([Decimal("1.5"), Decimal("2.5")]) == Decimal("4.0")
    tally = agg.define("tally", lift=lambda x: {x: 1}, combine=lambda a, b: a | b, lower=len, compile=False)
    assert tally().of(["a", "b", "a"]) == 2


def test_recursive_helpers_and_functions_without_a_digest():
    def halved(x):
        return halved(x / 2) if x > 10 else x

    with pytest.warns(InterpretedAggregate, match="halved is recursive"):
        assert agg.define("r", lift=halved, combine=max)().of([64.0]) == 8.0

    class Scale:
        by = 3.0

    early = agg.define("early", lift=lambda x: x * scale.by, combine=max)
    scale = Scale()
    with pytest.warns(InterpretedAggregate):
        assert early().of([2.0]) == 6.0


# ---------------------------------------------------------------------- the rest


def test_properties_and_names():
    first = agg.define("first", lift=lambda x: x, combine=lambda a, b: a, kind="distributive")
    assert repr(first("x")) == "first(x)" and first("x").kind == "distributive"
    assert not first().commutative and not first().invertible and not first().selective
    other = agg.define("first", lift=lambda x: x, combine=lambda a, b: b)
    assert first("x") == first("x") and first("x") != other("x")


def test_a_definition_can_be_pickled():
    copy = pickle.loads(pickle.dumps(mean("x")))
    assert copy == mean("x") and copy.of(VALUES) == 3.0


def test_wrong_types():
    with pytest.raises(WrongType, match=r"mean: lower.* raised TypeError"):
        mean().of(["a"])
    with pytest.raises(WrongType, match="root cannot take values of string"):
        agg.define("root", lift=math.sqrt, combine=max)().of(["a"])
    with pytest.raises(WrongType, match="combining the sample partial"):
        agg.define("bad", lift=lambda x: x, combine=lambda a, b: a.missing)().of([1])
    with pytest.raises(WrongType, match="lift of bad must be a function"):
        agg.define("bad", lift=3, combine=max)


def test_bad_parameters():
    with pytest.raises(InvalidArgument, match="needs a name"):
        agg.define("", lift=pair, combine=max)
    with pytest.raises(InvalidArgument, match="kind must be"):
        agg.define("bad", lift=pair, combine=max, kind="fast")
    with pytest.raises(InvalidArgument, match="partials of different lengths"):
        agg.define("bad", lift=pair, combine=lambda a, b: (a[0],))().of([1])
    with pytest.raises(InvalidArgument, match=r"1 field\(s\) are named"):
        agg.define("bad", lift=pair, combine=add_pairs, fields={"x": int})().of([1])
    with pytest.raises(InvalidArgument, match="give result="):
        agg.define("bad", lift=lambda x: [x], combine=lambda a, b: a, lower=lambda p: object())().of([1])


def test_no_warning_when_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mean().of(VALUES) == 3.0
