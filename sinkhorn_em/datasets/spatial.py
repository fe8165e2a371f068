"""Sections of the human dorsolateral prefrontal cortex: spots whose layer an anatomist named."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from .annotated import read_h5ad
from .downloads import sha256_of
from .spots import LAYERS, Spots, integer_counts, layer_names, most_dispersed
from .visium import SPOTS, public_section

DESCRIPTION = """Human dorsolateral prefrontal cortex: counts of {p} genes in {n} spots of a section on a 10x Visium slide.

From {origin}. Layers were named by hand, from the image and from genes known to mark layers: not entirely independent of the
counts. {unlabelled} spots have no layer.

Source: Maynard, K. R. et al. (2021). Transcriptome-scale spatial gene expression in the human dorsolateral prefrontal cortex.
Nature Neuroscience 24, 425-436."""


class Source(NamedTuple):
    """Where a section was read from."""

    spots: Spots
    origin: str
    sha256: dict[str, str]


def fetch_dlpfc(
    path: str | Path | None = None,
    *,
    section: str = "151510",
    data_home: str | Path | None = None,
    download: bool = True,
    n_genes: int | None = 500,
    layer_key: str | None = None,
    sha256: dict[str, str] | None = None,
) -> Bunch:
    r"""Human dorsolateral prefrontal cortex: raw counts of genes in spots of a section, whose layers are known.

    Section 151510 has 4634 spots: 1180, 650, 1774, 318, 310, 179 in layers 1 to 6, 184 in white matter, 39 unlabelled:
    very unequal.

    The public files have no published checksum, so that **a first download is not verified against one**: only the number of
    spots is checked, and the two tables are taken at a fixed commit. ``sha256`` of the result has the sums of what was read; pass
    it to later calls to be sure of the same files.

    Parameters
    ----------
    path : path, optional
        A file of yours: .h5ad (needs the extra ``anndata``), or .npz with arrays counts (n, p), genes, barcodes, row, col, layer.
        Or a folder that has ``dlpfc<section>_<number>g.npz``, itself or in its subfolder dlpfc. None: the public files.
    section : str
        One of the twelve, 151507 to 151510 and 151669 to 151676; without effect where path is a file.
    data_home : path, optional
        Folder of the public files. None: the environment variable ``SINKHORN_EM_DATA``, else ``pooch.os_cache("sinkhorn-em")``.
    download : bool
        Whether to download what is not in ``data_home`` (needs the extra ``fetch``).
    n_genes : int or None
        Where there are more genes: keep this many, those with the largest ratio of variance to mean of their counts, in the order
        of the file. None: keep all. Genes that are 0 everywhere have ratio 0.
    layer_key : str, optional
        Column of ``.obs`` of an .h5ad with the layers. None: the usual names are tried.
    sha256 : dict, optional
        Expected sums, by name of file.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        ``counts`` (n, p) int64, sparse rows (CSR); ``genes`` (p,) and ``barcodes`` (n,) str; ``coordinates`` (n, 2) row and column
        on the slide's array (pixels if an .h5ad has only those); ``layers`` (n,) str, "" where unlabelled; ``layer_names``, those
        that occur, of L1 to L6 and WM, from the surface inwards; ``sha256`` of the files read; ``DESCR``.

    Raises
    ------
    ValueError
        If a parameter breaks its rule, a file has no counts, layers or coordinates, or a sum or the number of spots is wrong.
    FileNotFoundError
        If there is no such file, and none may be downloaded.
    ImportError
        If anndata, h5py or pooch is needed and absent; it names the extra.

    Notes
    -----
    A file of 500 genes, dlpfc151510_500g.npz, is in use for benchmarks. How its genes were chosen is unknown; it has the size of
    the data set dlpfc151510 of the R package DR.SC (Liu et al. 2022), whose manual does not say either. With ``n_genes=500``
    the other files give other genes.

    References
    ----------
    Maynard et al. 2021, Nature Neuroscience 24, 425-436; github.com/LieberInstitute/HumanPilot (the public files).
    """
    if section not in SPOTS:
        raise ValueError(f"section={section!r} must be one of {', '.join(SPOTS)}, as a string.")
    if path is None:
        source = Source(*public_section(section, data_home, download, sha256 or {}))
    else:
        source = _local(Path(path), section, layer_key, sha256 or {})
    spots = most_dispersed(source.spots, n_genes)
    n, p = spots.counts.shape
    unlabelled = int(np.sum(spots.layers == ""))
    description = DESCRIPTION.format(n=n, p=p, origin=source.origin, unlabelled=unlabelled)
    names = [name for name in LAYERS if np.any(spots.layers == name)]
    return Bunch(**spots._asdict(), layer_names=names, sha256=source.sha256, DESCR=description)


def _local(path: Path, section: str, layer_key: str | None, expected: dict[str, str]) -> Source:
    """A file of the user's."""
    file = _only_archive(path, section) if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"path={str(path)!r} does not exist; leave path out to use the public files.")
    if file.suffix not in (".npz", ".h5ad"):
        raise ValueError(f"path={str(path)!r} must be a folder, or a file that ends in .npz or .h5ad.")
    sums = sha256_of([file], expected, f"section {section}")
    spots = _read_npz(file) if file.suffix == ".npz" else read_h5ad(file, layer_key)
    return Source(spots, file.name, sums)


def _only_archive(folder: Path, section: str) -> Path:
    """The .npz of a section in a folder or its subfolder dlpfc."""
    pattern = f"dlpfc{section}_*g.npz"
    found = sorted([*folder.glob(pattern), *folder.glob(f"dlpfc/{pattern}")])
    if not found:
        raise FileNotFoundError(f"{pattern} is neither in {folder} nor in its subfolder dlpfc; pass the file itself.")
    if len(found) > 1:
        raise ValueError(f"{folder} has several files {pattern}: {', '.join(map(str, found))}; pass one of them.")
    return found[0]


def _read_npz(path: Path) -> Spots:
    with np.load(path, allow_pickle=False) as file:
        missing = {"counts", "genes", "barcodes", "row", "col", "layer"} - set(file.files)
        if missing:
            raise ValueError(
                f"{path.name} lacks the arrays {', '.join(sorted(missing))}; see the docstring for its layout."
            )
        content: dict[str, Any] = dict(file)
    return Spots(
        counts=integer_counts(content["counts"], path.name),
        genes=content["genes"].astype(str),
        barcodes=content["barcodes"].astype(str),
        coordinates=np.column_stack([content["row"], content["col"]]).astype(np.int64),
        layers=layer_names(content["layer"], path.name),
    )
