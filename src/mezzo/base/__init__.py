"""What every room needs: errors and their one printer, source spans, units, seeded chance."""

from mezzo.base.errors import Diagnostic, MezzoError, Note, Reporter, Span

__all__ = ["Diagnostic", "MezzoError", "Note", "Reporter", "Span"]
