"""When windows begin and end."""

from windlass.windows.window import Window

__all__ = ["Window"]
