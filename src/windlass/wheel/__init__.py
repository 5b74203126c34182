"""µWheel: the aggregates of a stream kept by time, for windows and for ad-hoc queries over any range."""
