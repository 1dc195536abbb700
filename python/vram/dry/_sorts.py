"""Sorting and indexing: what CUB's kernels take as scratch, and the copies of indices."""

from __future__ import annotations

import math
from typing import Any

from vram.dry._arithmetic import ceil_div, round_up
from vram.dry._convolutions import is_contiguous
from vram.dry._layouts import copy_bytes, itemsize, numel

# CUB's onesweep radix sort of pairs with values of 64 bits (its DispatchRadixSort): 8 bits in a pass, each with 256 counts of 8 bytes, and
# for each tile 256 counts of 4 bytes that later tiles look back at. Its allocations are multiples of 256 bytes (its AliasTemporaries). The pairs
# of a tile, by the bytes of a key, are those of an H200. With keys of 8 bytes, sorts of seven kinds in its recordings, of 4,096 to 2,400,000 pairs,
# led to them, and an eighth agrees; with keys of 4 and of 2 bytes, and with the numbers of segments, two or three each of 262,144 to 1,600,000 pairs.
_TILES = {8: 4608, 4: 5376, 2: 5632, 1: 5632}
_SEGMENT_TILE = 5760
_SINGLE_TILE = 256 * 9  # pairs with values of 8 bytes that are sorted without passes
_PASS_BITS, _PASS_BYTES, _TILE_BYTES, _ALIGNMENT = 8, 2048, 1024, 256
# A scan keeps a state for each tile, of twice the bytes of an element, and 32 more (its ScanTileState). Recordings agree with these tiles, by the
# bytes of an element.
_PADDED_TILES = 32
_UNIQUE_TILE, _SCAN_TILES = 4608, {8: 896, 4: 1920}
# How torch.topk divides a row among blocks, if rows are long for their number: up to so many rows, from which length
# (aten/src/ATen/native/cuda/TensorTopK.cu). By registers, six blocks run on a processor at a time.
_SELECTING_THREADS, _SELECTING_BLOCKS, _FEWEST_ITEMS, _MOST_ITEMS = 256, 6, 4, 64
_DIVIDED = (
    (20, 20_000),
    (40, 10_000),
    (80, 8_000),
    (199, 5_000),
    (799, 3_000),
    (4_000, 800),
    (math.inf, 400),
)
_MASKS = ("torch.bool", "torch.uint8")


def radix_sort_bytes(count: int, bits: int, key_bytes: int = 8) -> int:
    """Return the scratch of cub::DeviceRadixSort::SortPairs for keys of so many bytes, of which so many bits are sorted, and values of 8 bytes.

    A single pass needs no second buffers.
    """
    buffers = round_up(key_bytes * count, _ALIGNMENT) + round_up(8 * count, _ALIGNMENT) if bits > _PASS_BITS else 0
    return buffers + _counts_bytes(count, bits, _TILES[key_bytes])


def segment_sort_bytes(count: int, segments: int) -> int:
    """Return the scratch of the sort that puts pairs back into their segments: PyTorch sorts fewer than 128 so, which is one pass."""
    return _counts_bytes(count, max(1, (segments - 1).bit_length()), _SEGMENT_TILE)


def _counts_bytes(count: int, bits: int, tile: int) -> int:
    return _PASS_BYTES * ceil_div(bits, _PASS_BITS) + _TILE_BYTES * ceil_div(count, tile) + 2 * _ALIGNMENT - 1


def unique_bytes(count: int) -> int:
    """Return the scratch of cub::DeviceSelect::UniqueByKey for keys and values of 64 bits."""
    return _state_bytes(ceil_div(count, _UNIQUE_TILE), 8)


def scan_bytes(count: int, element_bytes: int = 8) -> int:
    """Return the scratch of cub::DeviceScan for numbers of so many bytes: 8 or 4."""
    return _state_bytes(ceil_div(count, _SCAN_TILES[element_bytes]), element_bytes)


def permutation_bits(count: int) -> int:
    """Return how many random bits torch.randperm sorts by: so many that equal ones are rare (aten/src/ATen/native/cuda/Randperm.cu)."""
    return min(64, math.ceil(math.log2(count - (6 * count * count + 1) / (12 * math.log(0.9)))))


def permutation_key_bytes(count: int) -> int:
    return 4 if permutation_bits(count) <= 32 else 8


def permutation_scratch_bytes(count: int) -> int:
    """Return the scratch of the sort of torch.randperm; 0: one tile, as of the 1,000 numbers that were measured."""
    if count <= _SINGLE_TILE:
        return 0
    return radix_sort_bytes(count, permutation_bits(count), permutation_key_bytes(count))


def selecting_blocks(tensor: Any, dim: int | None, processors: int) -> int:
    """Return how many blocks of torch.topk write down what they counted; 0: each row has one, which needs no memory."""
    length = int(tensor.shape[-1 if dim is None else dim]) if len(tensor.shape) else 1
    rows = numel(tensor) // max(1, length)
    if length < next(least for most, least in _DIVIDED if rows <= most):
        return 0
    items = ceil_div(rows * length, processors * _SELECTING_BLOCKS * _SELECTING_THREADS)
    return rows * ceil_div(length, min(max(items, _FEWEST_ITEMS), _MOST_ITEMS) * _SELECTING_THREADS)


def _state_bytes(tiles: int, element_bytes: int) -> int:
    return round_up(2 * element_bytes * (tiles + _PADDED_TILES), _ALIGNMENT) + 2 * _ALIGNMENT - 1


def index_bits(tensor: Any, indices: Any) -> int:
    """Return with how many bits the rows of a tensor are numbered that the indices (one for each dimension, or None) select."""
    rows = math.prod(int(size) for size, index in zip(tensor.shape, indices) if index is not None)
    return max(1, (rows - 1).bit_length())


def given(indices: Any, number: int) -> Any:
    """Return the index of this number among those that are not None; None: there are fewer."""
    found = [index for index in indices if index is not None]
    return found[number] if number < len(found) else None


def values_copy_bytes(tensor: Any, indices: Any, values: Any, chosen: int) -> int:
    """Return the bytes of a contiguous copy of what index_put() adds at so many places; 0: it is stored as the kernel wants it.

    It is not if the values have to be expanded, or if a dimension before the indexed ones has no index. How many places a mask chooses only the
    values say.
    """
    if any(index is not None and str(index.dtype) in _MASKS for index in indices):
        return copy_bytes(values)
    indexed = [index is not None for index in indices] + [False] * (len(tensor.shape) - len(indices))
    count = chosen * math.prod(int(size) for size, is_indexed in zip(tensor.shape, indexed) if not is_indexed)
    leads = all(indexed[: sum(indexed)])
    if leads and is_contiguous(values) and numel(values) == count:
        return 0
    return count * itemsize(values)


def index_copy_bytes(indices: Any, number: int) -> int:
    """Return the bytes of the contiguous copy of an index: PyTorch copies all as soon as two of them have other strides once they are expanded."""
    given = [index for index in indices if index is not None]
    if number >= len(given) or len(given) < 2:
        return 0
    rank = max(len(index.shape) for index in given)
    shapes = [[1] * (rank - len(index.shape)) + [int(size) for size in index.shape] for index in given]
    shape = [max(sizes) for sizes in zip(*shapes)] if 0 not in {size for sizes in shapes for size in sizes} else [0]
    strides = [_expanded(index, sizes, shape) for index, sizes in zip(given, shapes)]
    if all(each == strides[0] for each in strides) or strides[number] == _contiguous(shape):
        return 0
    return math.prod(shape) * int(given[number].dtype.itemsize)


def _expanded(index: Any, sizes: list[int], shape: list[int]) -> list[int]:
    own = [0] * (len(shape) - len(index.shape)) + [int(stride) for stride in index.stride()]
    return [0 if size == 1 and wanted != 1 else stride for size, wanted, stride in zip(sizes, shape, own)]


def _contiguous(shape: list[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]
