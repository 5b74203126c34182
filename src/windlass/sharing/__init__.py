"""Sharing: from a set of queries to the cheapest plan that answers them together (MQO)."""
