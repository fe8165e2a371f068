"""Blood cells and the counts of their genes, shipped with the package."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils import Bunch

from .files import describe, locate

FILE = "pbmc68k.npz"
TARGET_SUM = 1e4  # counts of a cell are scaled to this sum over all genes before the logarithm


def load_pbmc68k() -> Bunch:
    r"""Blood cells: counts of 765 genes in 700 peripheral blood mononuclear cells of ten types, for co-clustering.

    ``data`` are the usual logarithms of normalised counts, with the total N_i over all genes, not only these 765,

    .. math:: \log(1 + 10^4 \, \text{counts}_{ij} / N_i)

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        ``data`` (700, 765) float64; ``counts`` (700, 765) int64, sparse rows (CSR), a third of them above 0; ``totals`` (700,)
        int64, N, an exposure of the rows for families of counts; ``target`` (700,) codes of cell types into ``target_names`` and
        ``louvain`` (700,) clusters 0 to 10 of another analysis; ``feature_names`` genes, ``barcodes`` cells; ``DESCR``,
        provenance and known flaws; ``filename``.

    References
    ----------
    Zheng et al. 2017, Nature Communications 8, 14049 (the cells); Wolf, Angerer & Theis 2018, Genome Biology 19, 15 (scanpy,
    whose ``pbmc68k_reduced`` this is).
    """
    path = locate(FILE)
    with np.load(BytesIO(path.read_bytes())) as file:
        content = dict(file)
    totals = content["totals"].astype(np.int64)
    shape = (len(totals), len(content["genes"]))
    entries = (content["counts"].astype(np.int64), content["genes_of_counts"].astype(np.int32), content["cell_starts"])
    counts = csr_matrix(entries, shape=shape)
    return Bunch(
        data=np.log1p(counts.toarray() * (TARGET_SUM / totals)[:, None]),
        counts=counts,
        totals=totals,
        target=content["cell_types"].astype(np.int64),
        target_names=content["cell_type_names"],
        louvain=content["louvain"].astype(np.int64),
        feature_names=content["genes"].tolist(),
        barcodes=content["barcodes"],
        DESCR=describe("pbmc68k"),
        filename=str(path),
    )
