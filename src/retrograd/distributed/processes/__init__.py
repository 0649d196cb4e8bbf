"""The processes that take part: how they are started, and how they wait for each other."""
