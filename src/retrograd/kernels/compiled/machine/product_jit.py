# mypy: ignore-errors
"""The tiles and panels of a matrix product, each computed by its micro-kernel; the record is in ``product.py``."""

from __future__ import annotations

from .compiler import helper
from .microkernel_jit import brgemm
from .product import PRODUCT


@helper
def begin_of_tile(tile, least, extra):  # type: ignore[no-untyped-def]
    """First row of a tile when the first ``extra`` tiles have ``least + 1`` rows and the others ``least``."""
    return tile * least + min(tile, extra)


@helper
def rows_of_tile(product, tile):  # type: ignore[no-untyped-def]
    """First row of a tile, and how many it has."""
    least, extra = product[PRODUCT.least], product[PRODUCT.extra]
    return begin_of_tile(tile, least, extra), least + (1 if tile < extra else 0)


@helper
def multiply(  # type: ignore[no-untyped-def]
    product, rows, panel, table, entries, depth, lda, b, b_step, ldb, c, c_step, init, accumulate
):
    """One tile: ``rows`` rows of a panel. The other arguments are those of the micro-kernel."""
    micro, tail = PRODUCT.whole, product[PRODUCT.lanes]
    if panel == product[PRODUCT.panels] - 1:
        micro, tail = PRODUCT.last, product[PRODUCT.tail]
    brgemm(product[micro + rows], table, entries, depth, lda, b, b_step, ldb, c, c_step, tail, init, accumulate)


@helper
def multiply_panels(  # type: ignore[no-untyped-def]
    product, rows, first, last, table, entries, depth, lda, b, b_panel, b_step, ldb, c, init, accumulate
):
    """The tiles of ``rows`` rows in the panels from ``first`` to ``last``.

    ``b`` is of panel 0, ``b_panel`` the step to the next one. C and ``init`` are as wide as all panels together.
    """
    for panel in range(first, last):
        column = panel * product[PRODUCT.row]
        multiply(
            product,
            rows,
            panel,
            table,
            entries,
            depth,
            lda,
            b + panel * b_panel,
            b_step,
            ldb,
            c,
            column,
            init + column,
            accumulate,
        )
