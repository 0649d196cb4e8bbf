"""File helpers: atomic writes, untrusted files and their formats, checks of saved states, and text for a terminal."""
