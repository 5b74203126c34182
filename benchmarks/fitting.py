"""Constants of a cost model, fitted to times that were measured; and the picture of how well they fit."""

from __future__ import annotations

from typing import Any

import numpy as np


def constants(table: Any, measured: Any) -> list[float]:
    """What each column costs: the least sum of squared relative errors with no constant below zero, found one after the
    other until none moves. Three digits are more than any of them is worth."""
    x = np.asarray(table, np.float64) / np.asarray(measured, np.float64)[:, None]
    scale = np.maximum(np.abs(x).max(axis=0), 1e-300)
    x = x / scale
    gram, right = x.T @ x + 1e-9 * np.eye(x.shape[1]), x.sum(axis=0)
    w = np.zeros(x.shape[1])
    for _ in range(20_000):
        before = w.copy()
        for i in range(len(w)):
            w[i] = max(0.0, w[i] + (right[i] - gram[i] @ w) / gram[i, i])
        if np.abs(w - before).max() < 1e-12 * w.max():
            break
    return [float(f"{value:.3g}") for value in w / scale]


def deviation(fitted: Any, measured: Any) -> float:
    """By how much fitted times are off, on average."""
    return float(np.mean(np.abs(np.asarray(fitted) / np.asarray(measured) - 1)))


def draw(points: dict[str, tuple[list[float], list[float]]], unit: str, columns: int) -> Any:
    """Fitted and measured times, by technique."""
    from benchmarks import style

    fig, grid = style.figure(1, 1, width=6.0, height=4.4)
    axes = grid[0][0]
    for title, (fitted, measured) in points.items():
        style.line(axes, title, fitted, measured, linestyle="", alpha=0.8)
    every = [y for _, measured in points.values() for y in measured]
    ends = [min(every), max(every)]
    axes.plot(ends, ends, color="#999999", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"fitted ({unit})")
    axes.set_ylabel(f"measured ({unit})")
    style.shared_legend(fig, grid, columns=columns)
    return fig
