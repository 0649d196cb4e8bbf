"""Mathematical functions of a register: exp, log, erf, pow, sin and related ones."""
