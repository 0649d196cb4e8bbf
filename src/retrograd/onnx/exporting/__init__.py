"""Export of models to ONNX.

``tracing`` runs the model, lists its operator calls, and tracks where their operands come from. ``converters`` define
the nodes of each operator, and ``writer`` is the graph that they write to. ``dynamic_axes`` compares the graphs of two
examples of different sizes: whatever differs depends on a variable extent. ``export`` combines these steps.
"""
