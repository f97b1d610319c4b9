"""The value types that packages exchange. They are frozen, and nothing here does I/O."""
