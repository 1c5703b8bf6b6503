"""MIGraphX's operators that slide a window: convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.migraphx.tensors import rank_of, sizes_of

_POOLS = ("average", "max", "lpnorm")
_MODES = ("default", "same_lower", "same_upper")


def both_sides(padding: Sequence[int], spatial: int) -> list[int]:
    """One amount for both sides of a dimension, or those before and then those after."""
    return [*padding, *padding] if len(padding) == spatial else list(padding)


def _window(
    x: ir.Value, padding: Sequence[int], stride: Sequence[int], mode: int | str
) -> tuple[list[int], list[int]]:
    """The padding of both sides, and the strides."""
    if mode_name(mode) != "default":
        raise ValueError(f"padding_mode {mode} is for convolution and pooling; give the padding")
    spatial = rank_of(x) - 2
    return both_sides(padding, spatial) or [0] * 2 * spatial, list(stride) or [1] * spatial


def _padded(
    x: ir.Value,
    padding: Sequence[int],
    strides: Sequence[int],
    window: Sequence[int],
    mode: int | str,
) -> tuple[list[int], list[int]]:
    """As `_window`. A mode of the same size pads so that a stride of 1 keeps the size; it puts an
    odd row before the first, or after the last. `window`: the spatial sizes, dilated."""
    kind = mode_name(mode)
    if kind == "default":
        return _window(x, padding, strides, mode)
    strides = list(strides) or [1] * len(window)
    sizes = sizes_of(x)[2:]
    more = [
        max((-(-size // step) - 1) * step + width - size, 0)
        for size, step, width in zip(sizes, strides, window, strict=True)
    ]
    small, large = [n // 2 for n in more], [n - n // 2 for n in more]
    return [*large, *small] if kind == "same_lower" else [*small, *large], list(strides)


def mode_name(mode: int | str) -> str:
    """The name of a rule for padding: that name, or its number."""
    name = _MODES[mode] if isinstance(mode, int) and mode in range(3) else str(mode).rstrip("_")
    if name not in _MODES:
        raise ValueError(f"padding_mode {mode} is none of {', '.join(_MODES)}")
    return name


def _dilated(lengths: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """The sizes of a window with its gaps."""
    steps = list(dilations) or [1] * len(lengths)
    return [(n - 1) * step + 1 for n, step in zip(lengths, steps, strict=True)]


def convolution_backwards(
    x: ir.Value,
    w: ir.Value,
    *,
    padding: Sequence[int] = (),
    stride: Sequence[int] = (),
    dilation: Sequence[int] = (),
    group: int = 1,
    padding_mode: int | str = 0,
    output_pads: Sequence[int] = (),
) -> ir.Value:
    """A transposed convolution; `output_pads`, which MIGraphX lacks, adds rows at the ends."""
    pads, strides = _window(x, padding, stride, padding_mode)
    more = list(output_pads) or None
    return mgx.convolution_backwards(x, w, pads, strides, list(dilation) or None, more, group)


def convolution_like(build: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    """The convolution of that builder, with MIGraphX's attributes."""

    def convolution(
        x: ir.Value,
        w: ir.Value,
        *,
        padding: Sequence[int] = (),
        stride: Sequence[int] = (),
        dilation: Sequence[int] = (),
        group: int = 1,
        padding_mode: int | str = 0,
    ) -> ir.Value:
        window = _dilated(sizes_of(w)[2:], dilation)
        pads, strides = _padded(x, padding, stride, window, padding_mode)
        return build(x, w, pads, strides, list(dilation) or None, group=group)

    return convolution


def pooling(
    x: ir.Value,
    *,
    mode: str | int = "average",
    padding: Sequence[int] = (),
    stride: Sequence[int] = (),
    lengths: Sequence[int] = (),
    dilations: Sequence[int] = (),
    ceil_mode: bool = False,
    lp_order: int = 2,
    count_include_pad: bool = False,
    padding_mode: int | str = 0,
) -> ir.Value:
    """The average, max or lpnorm of windows; lengths are 1 where they are not given."""
    kind = mode if isinstance(mode, str) else _POOLS[mode]
    sizes = list(lengths) or [1] * (rank_of(x) - 2)
    pads, strides = _padded(x, padding, stride, _dilated(sizes, dilations), padding_mode)
    return mgx.pooling(
        x,
        mgx.PoolingMode[kind],
        sizes,
        pads,
        strides,
        list(dilations) or None,
        ceil_mode=bool(ceil_mode),
        count_include_pad=bool(count_include_pad),
        lp_order=lp_order,
    )
