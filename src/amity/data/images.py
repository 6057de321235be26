"""A folder of images as arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from amity.data.columns import Columns
from amity.errors import DataError

KINDS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
SPLITS = {"train", "test"}


def read_folder(root: Path, size: int, grey: bool) -> Columns:
    """[train|test/][PEER/]CLASS/file, all resized to size x size. Every file must be readable: none
    is passed over."""
    files = sorted(p for p in root.rglob("*") if p.suffix.lower() in KINDS and p.is_file())
    if not files:
        raise DataError(f"{root}: no images; expected CLASS/file or PEER/CLASS/file")
    folders = [p.relative_to(root).parts[:-1] for p in files]
    with_split = {parts[0] for parts in folders if parts} <= SPLITS and all(folders)
    labels = [parts[1:] if with_split else parts for parts in folders]
    depths = {len(parts) for parts in labels}
    if depths not in ({1}, {2}):
        odd = next(
            (p for p, parts in zip(files, labels, strict=True) if len(parts) not in (1, 2)),
            files[0],
        )
        raise DataError(
            f"{root}: all images must lie in CLASS/ or all in PEER/CLASS/; {odd} does not fit"
        )
    x = np.stack([read_image(path, (size, size), grey) for path in files])
    y = np.array([parts[-1] for parts in labels])
    peer = np.array([parts[0] for parts in labels]) if depths == {2} else None
    split = np.array([parts[0] for parts in folders]) if with_split else None
    return Columns(x, y, peer, split)


def read_image(
    path: Path, size: tuple[int, int], grey: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The bytes of an image, resized to width x height, with the channels in front."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            fitted = image.convert("L" if grey else "RGB").resize(size, Image.Resampling.BILINEAR)
    except (
        OSError,
        UnidentifiedImageError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
    ) as error:
        raise DataError(
            f"{path}: is not an image that can be read ({error}); repair or remove it"
        ) from None
    pixels = np.asarray(fitted, np.uint8)
    return pixels[None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))
