"""Random scenarios agree with the oracle; and the sweep over many of them finds, shows and repeats what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from oracle import LastN, NonDeterministic, Tumbling

from tests.operator import scenarios, streams, sweep
from tests.operator.rows import CONDITIONS, Asked, Named, Twins, event
from tests.operator.scenarios import DIMENSIONS, WINDOWS, Action, Scenario, as_test, play, scenario, smaller, valid
from tests.operator.test_properties import EXAMPLES

BATCH = [event(3, id=1), event(4, id=2, flag=True)]
MADE = Scenario(
    {"key": ("k",), "allowed_lateness": 5},
    (Asked("a", Tumbling(4)), Asked("b", LastN(2, 4), ("sum", "list"), "flag")),
    (
        Action("process", (BATCH,)),
        Action("advance", (4,)),
        Action("exchange", (["b"], Asked("c", streams.STEPS[0]))),
        Action("restart"),
        Action("copy", ("pickle",)),
        Action("change", (["b"], 9, Asked("d", Tumbling(3)))),
        Action("swap"),
        Action("finish", (False,)),
    ),
)


@pytest.mark.parametrize("part", range(10))
def test_scenarios_agree_with_the_oracle(part: int) -> None:
    """The same scenarios every time; WINDLASS_EXAMPLES sets how many in each part. `make sweep` plays more."""
    count = EXAMPLES or 20
    for seed in range(part * count, (part + 1) * count):
        made = scenario(seed)
        try:
            play(made)
        except Exception as error:
            error.add_note(as_test(made, f"seed_{seed}"))
            raise


def test_a_seed_gives_the_same_scenario_and_all_are_valid() -> None:
    for seed in range(200):
        made = scenario(seed)
        assert valid(made)
        assert as_test(made, "x") == as_test(scenario(seed), "x")


def test_every_type_dimension_and_action_is_drawn() -> None:
    made = [scenario(seed) for seed in range(400)]
    actions = {action.name for one in made for action in one.actions}
    assert actions == {*scenarios.WEIGHTS, "finish"}
    assert {name for one in made for name in one.options} == {
        *("key", "in_order", "allowed_lateness", "sequence", "watermarks", "key_ttl"),
        *("store", "technique", "plan", "slicing", "late_waits"),
    }
    for name in WINDOWS:
        assert len(scenario(1, [name]).asked) > 0


def test_a_dimension_can_be_left_out() -> None:
    for name in DIMENSIONS:
        assert valid(scenario(3, without=(name,)))
    assert not any("watermarks" in scenario(seed, without=("watermarks",)).options for seed in range(50))


def test_the_code_of_a_test_plays_the_same_scenario() -> None:
    text = as_test(MADE, "found")
    known: dict[str, Any] = {"Asked": Asked, "Named": Named, "Twins": Twins, "event": event, **vars(streams)}
    exec(text, known)
    known["test_found"]()
    assert "Twins([Asked('a', Tumbling(size=4" in text
    assert "twins.process([event(3, id=1), event(4, id=2, flag=True)])" in text
    assert "twins.exchange(['b'], Asked('c', STEPS[0]))" in text
    assert "twins.change(['b'], 9, Asked('d', Tumbling(" in text


@pytest.mark.parametrize("actions", [
    (Action("remove", ("c",)),),
    (Action("remove", ("a",)), Action("remove", ("b",))),
    (Action("add", (Asked("a", Tumbling(2)),)),),
    (Action("exchange", (["c"],)),),
    (Action("exchange", ([], Asked("c", Tumbling(2)))),),
    (Action("exchange", (["a"], Asked("b", Tumbling(2)))),),
    (Action("change", (["c"], None)),),
    (Action("copy", ("copy",)), Action("remove", ("a",)), Action("swap"), Action("add", (Asked("a", Tumbling(2)),))),
    (Action("finish"), Action("finish")),
])  # fmt: skip
def test_what_makes_no_sense_is_not_valid(actions: tuple[Action, ...]) -> None:
    assert valid(MADE)
    assert not valid(replace(MADE, actions=actions))


def test_a_failure_is_made_smaller() -> None:
    """The scenario fails if an event has a flag: only that event is left of it."""

    def fails(part: Scenario) -> bool:
        return any(row["flag"] for a in part.actions if a.name == "process" for row in a.given[0])

    left = smaller(MADE, fails)
    assert [action.name for action in left.actions] == ["process"]
    assert left.actions[0].given[0] == [event(4, id=2, flag=True)]
    assert (len(left.asked), left.options) == (1, {})


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that finds no windows of `NonDeterministic`."""
    keep = Twins.advance

    def advance(twins: Twins, *given: Any) -> Any:
        assert not any(isinstance(query.window, NonDeterministic) for query in twins.asked), "rows: missing"
        return keep(twins, *given)

    monkeypatch.setattr(Twins, "advance", advance)


@pytest.mark.usefixtures("broken")
def test_a_sweep_that_finds_something_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--seed", "3", "--scenarios", "40", "--types", "time", "non-deterministic", "--failures", "1"]
    assert sweep.main(given) == 1
    told = capsys.readouterr().out
    assert "AssertionError" in told
    assert "NON_DETERMINISTIC[" in told
    assert "    twins.advance(" in told
    assert "1 failure among" in told


def test_a_sweep_that_finds_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main(["--seed", "7", "--scenarios", "4", "--types", "time"]) == 0
    assert capsys.readouterr().out == "0 failures among the scenarios of the seeds 7 to 10\n"


def test_conditions_are_named_in_code() -> None:
    assert "predicate=Named(name='odd')" in as_test(scenario_with_condition(), "x")


def scenario_with_condition() -> Scenario:
    assert "odd" in CONDITIONS
    return replace(MADE, asked=(Asked("a", streams.Punctuation(Named("odd"))),))
