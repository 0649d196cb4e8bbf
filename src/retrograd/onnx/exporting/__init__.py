"""Writing models in the format of ONNX.

``record`` runs the model and lists its calls of operators, and ``origins`` are where their operands come from.
``converters`` have the nodes of each operator, ``writer`` is the graph that they write into. ``merge`` compares the
graphs of two examples of different sizes: what differs depends on an extent that is left open. ``model`` puts these
together.
"""
