"""The page, served to a browser on this machine; needs the extra `explain`."""
