"""The picture of a recorded graph: walk.py reads it, layout.py places it, drawing.py and table.py show it."""
