"""Compiled loops for CPUs over the rows of one GP on a plane (D = 2) or in space (D = 3).

On each axis a point has four weights, and for the gradient the slopes of these weights. The mean reads 4^D values of
the lattice with the weights of all axes; its slope along an axis reads them with that axis' slopes as weights.
Everything is written out, since the compiler would not unroll loops over four numbers.
"""

from svdkl.gp.fast.compiling import jit


@jit
def _locate(position, num_cells):
    """Find cell and fraction; a NaN gets a valid cell and stays NaN in the fraction."""
    real = type(position)
    inside = min(max(position, real(0)), real(num_cells))
    cell = min(int(inside), num_cells - 1) if inside == inside else 0
    return cell, inside - real(cell)


@jit
def _beyond(position, num_cells):
    """Tell whether the end of the axis is read instead, where the slope is zero."""
    return not (position >= 0 and position <= num_cells)


@jit
def _weights(t):
    real = type(t)
    half, one, two = real(0.5), real(1), real(2)
    return (
        ((one - half * t) * t - half) * t,
        (real(1.5) * t - real(2.5)) * t * t + one,
        ((two - real(1.5) * t) * t + half) * t,
        (half * t - half) * t * t,
    )


@jit
def _weight_slopes(t):
    real = type(t)
    half, two = real(0.5), real(2)
    return (
        (two - real(1.5) * t) * t - half,
        (real(4.5) * t - real(5)) * t,
        (real(4) - real(4.5) * t) * t + half,
        (real(1.5) * t - real(1)) * t,
    )


@jit
def _cubic(rows, cell, k, t):
    return rows[cell, k] + t * (rows[cell, k + 1] + t * (rows[cell, k + 2] + t * rows[cell, k + 3]))


@jit
def _cubic_slope(rows, cell, k, t):
    real = type(t)
    return rows[cell, k + 1] + t * (real(2) * rows[cell, k + 2] + t * real(3) * rows[cell, k + 3])


@jit
def _variance(rows, cell, t):
    a, b = _cubic(rows, cell, 0, t), _cubic(rows, cell, 4, t)
    c, d = _cubic(rows, cell, 8, t), _cubic(rows, cell, 12, t)
    return a * a + b * b + c * c + d * d


@jit
def _variance_slope(rows, cell, t):
    real = type(t)
    return real(2) * (
        _cubic(rows, cell, 0, t) * _cubic_slope(rows, cell, 0, t)
        + _cubic(rows, cell, 4, t) * _cubic_slope(rows, cell, 4, t)
        + _cubic(rows, cell, 8, t) * _cubic_slope(rows, cell, 8, t)
        + _cubic(rows, cell, 12, t) * _cubic_slope(rows, cell, 12, t)
    )


@jit
def _add_moments(moments, cell, t, v):
    """Add v t^p, p = 0 ... 6."""
    t2 = t * t
    t3 = t2 * t
    w = v * t3
    moments[cell, 0] += v
    moments[cell, 1] += v * t
    moments[cell, 2] += v * t2
    moments[cell, 3] += w
    moments[cell, 4] += w * t
    moments[cell, 5] += w * t2
    moments[cell, 6] += w * t3


@jit
def _read_line(u, at, w):
    return u[at] * w[0] + u[at + 1] * w[1] + u[at + 2] * w[2] + u[at + 3] * w[3]


@jit
def _read_plane(u, at, n, w, x):
    """Read 4 x 4 values with weights; ``n`` is the distance of rows in memory."""
    return (
        w[0] * _read_line(u, at, x)
        + w[1] * _read_line(u, at + n, x)
        + w[2] * _read_line(u, at + 2 * n, x)
        + w[3] * _read_line(u, at + 3 * n, x)
    )


@jit
def _read_space(u, at, m, n, w, x, y):
    """Read 4 x 4 x 4 values with weights; ``m`` is the distance of planes in memory."""
    return (
        w[0] * _read_plane(u, at, n, x, y)
        + w[1] * _read_plane(u, at + m, n, x, y)
        + w[2] * _read_plane(u, at + 2 * m, n, x, y)
        + w[3] * _read_plane(u, at + 3 * m, n, x, y)
    )


@jit
def _add_line(u, at, g, w):
    u[at] += g * w[0]
    u[at + 1] += g * w[1]
    u[at + 2] += g * w[2]
    u[at + 3] += g * w[3]


@jit
def _add_plane(u, at, n, g, w, x):
    _add_line(u, at, g * w[0], x)
    _add_line(u, at + n, g * w[1], x)
    _add_line(u, at + 2 * n, g * w[2], x)
    _add_line(u, at + 3 * n, g * w[3], x)


@jit
def _add_space(u, at, m, n, g, w, x, y):
    _add_plane(u, at, n, g * w[0], x, y)
    _add_plane(u, at + m, n, g * w[1], x, y)
    _add_plane(u, at + 2 * m, n, g * w[2], x, y)
    _add_plane(u, at + 3 * m, n, g * w[3], x, y)


@jit
def forward_plane(u, rows, positions, mean, variance, start, stop):
    """Read mean and variance: ``u`` is the lattice with ghost points, flat, ``rows`` each axis' four cubics a cell."""
    rows0, rows1 = rows
    cells0, cells1 = len(rows0), len(rows1)
    n = cells1 + 3
    for b in range(start, stop):
        c0, t0 = _locate(positions[b, 0], cells0)
        c1, t1 = _locate(positions[b, 1], cells1)
        mean[b] = _read_plane(u, c0 * n + c1, n, _weights(t0), _weights(t1))
        variance[b] = _variance(rows0, c0, t0) * _variance(rows1, c1, t1)


@jit
def forward_space(u, rows, positions, mean, variance, start, stop):
    """Read mean and variance on three axes, as :func:`forward_plane` does on two."""
    rows0, rows1, rows2 = rows
    cells0, cells1, cells2 = len(rows0), len(rows1), len(rows2)
    n = cells2 + 3
    m = (cells1 + 3) * n
    for b in range(start, stop):
        c0, t0 = _locate(positions[b, 0], cells0)
        c1, t1 = _locate(positions[b, 1], cells1)
        c2, t2 = _locate(positions[b, 2], cells2)
        mean[b] = _read_space(u, c0 * m + c1 * n + c2, m, n, _weights(t0), _weights(t1), _weights(t2))
        variance[b] = _variance(rows0, c0, t0) * _variance(rows1, c1, t1) * _variance(rows2, c2, t2)


@jit
def backward_plane(u, rows, positions, grad_mean, grad_variance, grad_positions, grad_u, moments, start, stop):
    """Add gradients; ``moments`` sums (gradient of the axis' variance) t^p, p = 0 ... 6, for each axis and cell."""
    real = type(u[0])
    rows0, rows1 = rows
    moments0, moments1 = moments
    cells0, cells1 = len(rows0), len(rows1)
    n = cells1 + 3
    for b in range(start, stop):
        c0, t0 = _locate(positions[b, 0], cells0)
        c1, t1 = _locate(positions[b, 1], cells1)
        at = c0 * n + c1
        w0, w1 = _weights(t0), _weights(t1)
        g, v = grad_mean[b], grad_variance[b]
        v0, v1 = v * _variance(rows1, c1, t1), v * _variance(rows0, c0, t0)
        slope0 = g * _read_plane(u, at, n, _weight_slopes(t0), w1) + v0 * _variance_slope(rows0, c0, t0)
        slope1 = g * _read_plane(u, at, n, w0, _weight_slopes(t1)) + v1 * _variance_slope(rows1, c1, t1)
        grad_positions[b, 0] = real(0) if _beyond(positions[b, 0], cells0) else slope0
        grad_positions[b, 1] = real(0) if _beyond(positions[b, 1], cells1) else slope1
        _add_plane(grad_u, at, n, g, w0, w1)
        _add_moments(moments0, c0, t0, v0)
        _add_moments(moments1, c1, t1, v1)


@jit
def backward_space(u, rows, positions, grad_mean, grad_variance, grad_positions, grad_u, moments, start, stop):
    """Add gradients on three axes, as :func:`backward_plane` does on two."""
    real = type(u[0])
    rows0, rows1, rows2 = rows
    moments0, moments1, moments2 = moments
    cells0, cells1, cells2 = len(rows0), len(rows1), len(rows2)
    n = cells2 + 3
    m = (cells1 + 3) * n
    for b in range(start, stop):
        c0, t0 = _locate(positions[b, 0], cells0)
        c1, t1 = _locate(positions[b, 1], cells1)
        c2, t2 = _locate(positions[b, 2], cells2)
        at = c0 * m + c1 * n + c2
        w0, w1, w2 = _weights(t0), _weights(t1), _weights(t2)
        g, v = grad_mean[b], grad_variance[b]
        along0, along1, along2 = _variance(rows0, c0, t0), _variance(rows1, c1, t1), _variance(rows2, c2, t2)
        v0, v1, v2 = v * along1 * along2, v * along0 * along2, v * along0 * along1
        slope0 = g * _read_space(u, at, m, n, _weight_slopes(t0), w1, w2) + v0 * _variance_slope(rows0, c0, t0)
        slope1 = g * _read_space(u, at, m, n, w0, _weight_slopes(t1), w2) + v1 * _variance_slope(rows1, c1, t1)
        slope2 = g * _read_space(u, at, m, n, w0, w1, _weight_slopes(t2)) + v2 * _variance_slope(rows2, c2, t2)
        grad_positions[b, 0] = real(0) if _beyond(positions[b, 0], cells0) else slope0
        grad_positions[b, 1] = real(0) if _beyond(positions[b, 1], cells1) else slope1
        grad_positions[b, 2] = real(0) if _beyond(positions[b, 2], cells2) else slope2
        _add_space(grad_u, at, m, n, g, w0, w1, w2)
        _add_moments(moments0, c0, t0, v0)
        _add_moments(moments1, c1, t1, v1)
        _add_moments(moments2, c2, t2, v2)
