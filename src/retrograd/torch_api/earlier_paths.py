"""Import paths of earlier versions of this library, which programs and pickles may contain."""

__all__ = ["EARLIER"]

# the earlier path below the package -> the present one; the same holds for what is below it
EARLIER = {
    "atomic": "_files.atomic",
    "codes": "specs.low_bit",
    "entries": "_files.state",
    "geometry": "specs.geometry",
    "options": "specs.convolution_options",
    "outside": "_files.untrusted",
    "printable": "_files.terminal",
    "recurrence": "specs.recurrence",
    "textbook": "kernels.textbook",
}
