"""The blood cells are those of scanpy's file, as counts."""

import numpy as np
import pytest

from sinkhorn_em.datasets import load_pbmc68k

TYPES = {
    "CD4+/CD25 T Reg": 68,
    "CD4+/CD45RA+/CD25- Naive T": 8,
    "CD4+/CD45RO+ Memory": 19,
    "CD8+ Cytotoxic T": 54,
    "CD8+/CD45RA+ Naive Cytotoxic": 43,
    "CD14+ Monocyte": 129,
    "CD19+ B": 95,
    "CD34+": 13,
    "CD56+ NK": 31,
    "Dendritic": 240,
}
ROUNDING = 5e-4  # scanpy's file has three decimals


@pytest.fixture(scope="module")
def cells():
    return load_pbmc68k()


def test_there_are_700_cells_of_ten_types_and_765_genes(cells):
    assert cells.data.shape == cells.counts.shape == (700, 765)
    assert len(set(cells.feature_names)) == 765
    assert len(set(cells.barcodes.tolist())) == 700
    assert dict(zip(cells.target_names.tolist(), np.bincount(cells.target).tolist(), strict=True)) == TYPES
    assert np.bincount(cells.louvain).tolist() == [130, 123, 117, 70, 66, 54, 42, 35, 31, 19, 13]


def test_counts_are_whole_numbers_that_do_not_exceed_the_totals(cells):
    assert cells.counts.dtype == cells.totals.dtype == np.int64
    assert cells.counts.nnz == 174_400
    assert cells.counts.data.min() == 1
    assert cells.counts.data.max() == 259
    sums = np.asarray(cells.counts.sum(axis=1)).ravel()
    assert (sums < cells.totals).all()  # the totals are over all genes


def test_the_first_values_are_those_of_the_original_file(cells):
    genes = ["PARK7", "RBP7", "MAD2L2", "AGTRAP", "TNFRSF1B", "HP1BP3"]
    columns = [cells.feature_names.index(gene) for gene in genes]
    assert cells.barcodes[0] == "AAAGCCTGGCTAAC-1"
    assert cells.totals[0] == 2557
    assert cells.counts[0].toarray()[0, columns].tolist() == [1, 1, 1, 2, 3, 1]
    assert cells.data[0, columns] == pytest.approx([1.591, 1.591, 1.591, 2.177, 2.544, 1.591], abs=ROUNDING)


@pytest.mark.parametrize(
    ("gene", "cell_type"),
    [("MS4A1", "CD19+ B"), ("CD79A", "CD19+ B"), ("GNLY", "CD56+ NK"), ("CST3", "Dendritic"), ("LYZ", "Dendritic")],
)
def test_known_genes_mark_their_cells(cells, gene, cell_type):
    expression = cells.data[:, cells.feature_names.index(gene)]
    means = [expression[cells.target == k].mean() for k in range(10)]
    assert cells.target_names[np.argmax(means)] == cell_type


def test_the_description_names_the_source_the_licence_and_what_the_values_are(cells):
    for word in ("Source:", "Zheng", "scanpy", "CC BY 4.0", "`counts`", "`totals`", "`target`", "`louvain`"):
        assert word in cells.DESCR
    assert cells.filename.endswith("pbmc68k.npz")


def test_loading_twice_gives_arrays_that_do_not_share_memory(cells):
    load_pbmc68k().counts.data[:] = 0
    assert load_pbmc68k().counts.data.min() == 1
