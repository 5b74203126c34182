"""How plots look: one colour and marker a technique, everywhere the same."""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours, which stay apart for colour-blind readers; peers are grey and dashed.
COLOURS = {
    "Recompute": "#999999",
    "FlatFAT": "#E69F00",
    "B-Int": "#8C510A",
    "FlatFIT": "#009E73",
    "TwoStacks": "#0072B2",
    "DABA": "#56B4E9",
    "SubtractOnEvict": "#CC79A7",
    "SlickDeque": "#D55E00",
    "NumPy": "#000000",
    "Polars": "#777777",
    "DuckDB": "#555555",
}
MARKERS = dict(zip(COLOURS, "xsD^ov*PdX+", strict=True))
DASHES = {"NumPy": ":", "Polars": "--", "DuckDB": "-."}

# The operator, and the papers' alternatives to slicing.
COLOURS |= {
    "Windlass": "#0072B2",
    "Windlass lazy": "#0072B2",
    "Windlass eager": "#56B4E9",
    "Windlass auto": "#004C78",
    "Cutty": "#009E73",
    "Pairs": "#66A61E",
    "Pairs+": "#1B7837",
    "Buckets": "#D55E00",
    "Tuple buckets": "#CC79A7",
    "Tuple buffer": "#E69F00",
    "Aggregate tree": "#8C510A",
    "RA": "#8C510A",
    "Naive": "#999999",
    "Polars, panes": "#777777",
    "DuckDB, panes": "#555555",
}
MARKERS |= dict(zip(list(COLOURS)[len(MARKERS) :], "oooPsdDxvX^^.X+", strict=True))
DASHES |= {"Polars, panes": ":", "DuckDB, panes": ":"}

# The techniques of plans that are no store of their own name.
COLOURS |= {"Panes": "#999999", "blocks": "#0072B2", "SlickDeque (Inv)": "#CC79A7", "SlickDeque (Non-Inv)": "#D55E00"}
MARKERS |= {"Panes": "x", "blocks": "o", "SlickDeque (Inv)": "*", "SlickDeque (Non-Inv)": "P"}

# Wheels, by how far ahead they take events.
COLOURS |= {"wheel, 64 ahead": "#0072B2", "wheel, 512 ahead": "#56B4E9"}
MARKERS |= {"wheel, 64 ahead": "o", "wheel, 512 ahead": "v"}

plt.rcParams.update(
    {
        "font.size": 9,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.grid.which": "major",
        "grid.color": "#dddddd",
        "grid.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "savefig.dpi": 130,
    }
)


def figure(rows: int, columns: int, width: float = 5.2, height: float = 3.6, **options: Any) -> tuple[Figure, Any]:
    return plt.subplots(
        rows,
        columns,
        figsize=(width * columns, height * rows + 1.1),
        squeeze=False,
        layout="constrained",
        **options,
    )


def line(axes: Axes, name: str, x: list[float], y: list[float], **options: Any) -> None:
    settings: dict[str, Any] = {
        "color": COLOURS.get(name, "#444444"),
        "marker": MARKERS.get(name, "."),
        "linestyle": DASHES.get(name, "-"),
        "linewidth": 1.4,
        "markersize": 4.5,
        "label": name,
    }
    axes.plot(x, y, **{**settings, **options})


def window_axis(axes: Axes, label: str = "window (events)") -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlabel(label)


def shared_legend(fig: Figure, grid: Any, columns: int = 6) -> None:
    """One legend below all panels."""
    entries: dict[str, Any] = {}
    for axes in grid.flat:
        handles, labels = axes.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            entries.setdefault(label, handle)
    order = [name for name in COLOURS if name in entries] + [name for name in entries if name not in COLOURS]
    fig.legend([entries[n] for n in order], order, loc="outside lower center", ncols=columns)


def save(fig: Figure, path: Any, title: str, what_ran: str) -> None:
    """Title, one line (or two, where the figure is narrow) on what was run, and the file."""
    small = textwrap.fill(what_ran, int(fig.get_figwidth() * 16))
    top = 1 - 0.38 / fig.get_figheight()
    fig.suptitle(f"{title}\n\n", fontsize=12, fontweight="bold")
    fig.text(0.5, top, small, ha="center", va="top", fontsize=7.5, color="#555555")
    fig.savefig(path)
    plt.close(fig)
