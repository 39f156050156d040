"""Ports: where packets come in and go out."""
