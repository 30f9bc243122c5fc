"""Where jobs come from; chosen by name in the wiring. Nothing here is loaded before it is used."""
