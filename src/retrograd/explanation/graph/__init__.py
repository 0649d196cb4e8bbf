"""Pictures and tables of a recorded graph: walk.py reads it, layout.py places it, drawing.py and graph.py show it."""
