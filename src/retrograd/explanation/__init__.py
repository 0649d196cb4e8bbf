"""Pages and pictures of how a result was computed and its gradient flows back; `retrograd.graph` is graph/graph.py."""
