"""The building road on one page: from a graph to a program that targets can build."""

from mezzo.pipeline.compile import Plan, compile_graph, compile_text, configure_graph, graph_of

__all__ = ["Plan", "compile_graph", "compile_text", "configure_graph", "graph_of"]
