"""Front ends: texts become values the rest of the house works on (`click`: router files; `python`: element methods)."""
