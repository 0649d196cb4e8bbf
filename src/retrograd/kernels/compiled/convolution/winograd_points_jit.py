# mypy: ignore-errors
"""Winograd's transforms along one axis: 3 taps and tiles of 4, 3 and 2 positions (``kind`` 6, 5, 4: so many points),
and 2 taps and tiles of 3 positions (``kind`` 3: 4 points).

A correlation of taps w with m positions of x is y = A ((G w) * (B x)). With the taps, the tile and its input seen as
the coefficients of polynomials, G and B evaluate them at some points (infinity: the highest coefficient), and A
interpolates the product. The points are 0, P, -P, infinity, Q, -Q in this order, P = 5/8, Q = 3/2: a tile uses the
first ones, one less than its positions plus taps. G is the same for all tiles with the same number of taps; B contains
what depends on the number of points. The adjoints A^T and G^T make the weight gradient, gw = G^T ((A^T gy) * (B x)).

These points keep the error near that of the plain sum; the constants are binary fractions or small products of them.

Source: S. Winograd, "Arithmetic Complexity of Computations", 1980; A. Lavin, S. Gray, "Fast Algorithms for
Convolutional Neural Networks", 2015 (arXiv:1509.09308); the points: Intel's MKL-DNN.
"""

from __future__ import annotations

from ..machine.compiler import helper

_P, _Q = 0.625, 1.5
_P2, _Q2 = _P * _P, _Q * _Q
_P3, _Q3 = _P * _P2, _Q * _Q2
_SUM, _PRODUCT, _APART = _P2 + _Q2, _P2 * _Q2, _P2 - _Q2
# of G: 1 over the product of the distances to the other finite points
_AT_0, _AT_P, _AT_Q = 1 / _PRODUCT, 1 / (2 * _P2 * _APART), -1 / (2 * _Q2 * _APART)


@helper
def points_of_input(kind, x0, x1, x2, x3, x4, x5):  # type: ignore[no-untyped-def]
    """B x: the values of a tile's input at the points; those that the tile does not use are undefined."""
    if kind == 6:
        even_p, odd_p = x4 - x2 * _Q2, (x3 - x1 * _Q2) * _P
        even_q, odd_q = x4 - x2 * _P2, (x3 - x1 * _P2) * _Q
        return (
            x0 * _PRODUCT - x2 * _SUM + x4,
            even_p + odd_p,
            even_p - odd_p,
            x1 * _PRODUCT - x3 * _SUM + x5,
            even_q + odd_q,
            even_q - odd_q,
        )
    if kind == 5:
        cubic = x3 - x1 * _P2
        square = x2 - x0 * _P2
        at_p = x2 * _P + x3 - (x1 * _P + x2) * _Q  # (x2 + x3/P) P ..., of t (t + P) (t - Q)
        at_minus = x3 - x2 * _P - (x2 - x1 * _P) * _Q
        return (
            (cubic - square * _Q) * _Q,
            at_p * (_P + _Q),
            at_minus * (_Q - _P),
            x4 - x2 * _P2 - cubic * _Q,
            cubic * (2 * _Q),
            cubic,
        )
    even, odd = x2 * _APART, x1 * (_P * _APART)
    return x0 * _PRODUCT - x2 * _Q2, even + odd, even - odd, x3 - x1 * _P2, even, odd


@helper
def tile_of_points(kind, m0, m1, m2, m3, m4, m5):  # type: ignore[no-untyped-def]
    """A m: the positions of a tile from the values at its points; missing positions are undefined."""
    plus, minus = m1 + m2, m1 - m2
    if kind == 6:
        more, less = m4 + m5, m4 - m5
        return m0 + plus + more, minus * _P + less * _Q, plus * _P2 + more * _Q2, minus * _P3 + less * _Q3 + m3
    if kind == 5:
        return m0 + plus + m4, minus * _P + m4 * _Q, plus * _P2 + m4 * _Q2 + m3, m3
    if kind == 4:
        return m0 + plus, minus * _P + m3, plus, minus
    return m0 + plus, minus * _P, plus * _P2 + m3, minus


@helper
def points_of_gradient(kind, y0, y1, y2, y3):  # type: ignore[no-untyped-def]
    """A^T y: the values at the points of a tile of the output's gradient."""
    if kind == 6:
        even_p, odd_p = y0 + y2 * _P2, y1 * _P + y3 * _P3
        even_q, odd_q = y0 + y2 * _Q2, y1 * _Q + y3 * _Q3
        return y0, even_p + odd_p, even_p - odd_p, y3, even_q + odd_q, even_q - odd_q
    if kind == 5:
        even_p, odd_p = y0 + y2 * _P2, y1 * _P
        return y0, even_p + odd_p, even_p - odd_p, y2, y0 + y1 * _Q + y2 * _Q2, y0
    odd = y1 * _P
    return y0, y0 + odd, y0 - odd, y1, y0, y0


@helper
def points_of_weights(w0, w1, w2):  # type: ignore[no-untyped-def]
    """G w: the values at the points of three taps."""
    even_p, odd_p = (w0 + w2 * _P2) * _AT_P, w1 * (_P * _AT_P)
    even_q, odd_q = (w0 + w2 * _Q2) * _AT_Q, w1 * (_Q * _AT_Q)
    return w0 * _AT_0, even_p + odd_p, even_p - odd_p, w2, even_q + odd_q, even_q - odd_q


@helper
def points_of_two_weights(w0, w1):  # type: ignore[no-untyped-def]
    """G w: the values at the first four points of two taps."""
    even, odd = w0 * _AT_P, w1 * (_P * _AT_P)
    return w0 * _AT_0, even + odd, even - odd, w1


@helper
def weights_of_points(u0, u1, u2, u3, u4, u5):  # type: ignore[no-untyped-def]
    """G^T u: the gradient to three taps from the gradient to their values at the points."""
    plus_p, minus_p = (u1 + u2) * _AT_P, (u1 - u2) * (_P * _AT_P)
    plus_q, minus_q = (u4 + u5) * _AT_Q, (u4 - u5) * (_Q * _AT_Q)
    return u0 * _AT_0 + plus_p + plus_q, minus_p + minus_q, plus_p * _P2 + plus_q * _Q2 + u3
