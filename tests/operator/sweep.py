"""Many random scenarios, one for each seed: `python -m tests.operator.sweep --seed 0 --scenarios 10000`.

Each scenario that fails is made smaller and printed as a test; the exit code is 1 if there was one. What scenarios are
made of is in `scenarios.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]  # as pytest has them

from tests.operator.scenarios import DIMENSIONS, WINDOWS, Scenario, as_test, play, scenario, smaller  # noqa: E402

PATIENCE = 60  # seconds for making a scenario smaller


def failure(tried: Scenario) -> BaseException | None:
    """The exception that playing a scenario raises, if any."""
    try:
        play(tried)
    except Exception as error:
        return error
    return None


def kind(error: BaseException | None) -> Any:
    """What makes two failures alike: the type, and for differences what differs."""
    text = str(error).split(" | ")[0].split(":")[0] if isinstance(error, AssertionError) else ""
    return type(error), text.split()[:1]


def reduced(whole: Scenario, error: BaseException) -> Scenario:
    """A smaller scenario that fails like this one."""
    end = time.monotonic() + PATIENCE
    return smaller(whole, lambda part: time.monotonic() < end and kind(failure(part)) == kind(error))


def failures(seeds: range, types: list[str] | None, without: tuple[str, ...]) -> Iterator[tuple[int, Scenario, Any]]:
    for seed in seeds:
        made = scenario(seed, types, without)
        if (error := failure(made)) is not None:
            yield seed, made, error


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first scenario")
    parser.add_argument("--scenarios", type=int, default=1000, help="how many scenarios, each of the next seed")
    parser.add_argument("--types", nargs="+", choices=sorted(WINDOWS), help="windows of these types only")
    parser.add_argument("--without", nargs="+", choices=sorted(DIMENSIONS), default=(), help="leave dimensions out")
    parser.add_argument("--failures", type=int, default=10, help="stop after this many")
    parser.add_argument("--whole", action="store_true", help="do not make scenarios that fail smaller")
    options = parser.parse_args(given)
    seeds = range(options.seed, options.seed + options.scenarios)
    found = 0
    for seed, made, error in failures(seeds, options.types, tuple(options.without)):
        found += 1
        part = made if options.whole else reduced(made, error)
        print(f"\n# seed {seed}: {type(error).__name__}\n{as_test(part, f'seed_{seed}')}\n")
        print("".join(f"# {line}\n" for line in str(failure(part)).splitlines()), flush=True)
        if found == options.failures:
            break
    last = seed if found == options.failures else seeds.stop - 1
    print(f"{found} failure{'s' * (found != 1)} among the scenarios of the seeds {seeds.start} to {last}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
