"""Import paths of earlier versions of this library that programs and pickles may contain."""

__all__ = ["EARLIER"]

# earlier path below the package -> present path; modules below it are mapped as well
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
