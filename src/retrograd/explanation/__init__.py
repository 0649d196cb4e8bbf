"""Pages and pictures that show how a result and its gradient are computed; `retrograd.graph` is in graph/graph.py."""
