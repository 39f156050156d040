"""The one intermediate representation: types, ops, modules, text, validity, cost."""
