"""Which release this is; everything that tells it reads it here."""

__version__ = "0.1.0"
