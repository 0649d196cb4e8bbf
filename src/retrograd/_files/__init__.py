"""Files that are whole or not there, files from untrusted sources, saved states, and text for a terminal."""
