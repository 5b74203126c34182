"""The version of Windlass, which is in all that it writes."""

__version__ = "0.2.0.dev0"
