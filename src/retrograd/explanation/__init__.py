"""What shows how a result was computed and how its gradient flows back; `retrograd.graph` is graph/graph.py."""
