"""File helpers: atomic writes, untrusted files, checks of saved states, and text for a terminal."""
