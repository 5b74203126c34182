"""Cutting the stream: edges, slices, and the programs that keep their partials."""
