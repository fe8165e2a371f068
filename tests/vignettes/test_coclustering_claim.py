"""What the vignette says of blood cells is so: known marker genes lie in blocks of high rates of the cells that they mark."""

import numpy as np
import pytest


@pytest.fixture
def variables(ran):
    return ran("coclustering")[1]


def test_splits_and_merges_find_the_blocks_that_were_drawn(variables):
    model = variables["found"].model
    assert (model.n_row_clusters, model.n_column_clusters) == (5, 4)
    assert len(set(zip(variables["drawn"].row_labels, model.row_labels_, strict=True))) == 5


def test_icl_falls_on_by_less_and_less(variables):
    four, eight, twelve = variables["icl"]
    assert four > eight > twelve
    assert eight - twelve < four - eight


# markers of the literature: cytotoxic granules, immunoglobulin, presentation of antigens, the inflammasome of monocytes
@pytest.mark.parametrize(
    ("genes", "types"),
    [
        (["GNLY", "NKG7", "CCL5"], ["CD8+ Cytotoxic T", "CD56+ NK"]),
        (["IGJ", "MZB1"], ["CD19+ B"]),
        (["CD74", "HLA-DRA"], ["Dendritic", "CD19+ B"]),
        (["AIF1", "LST1"], ["CD14+ Monocyte", "Dendritic"]),
        (["CD52", "LTB"], ["CD4+/CD25 T Reg", "CD8+ Cytotoxic T", "CD4+/CD45RO+ Memory"]),
    ],
)
def test_markers_share_a_group_that_is_read_most_in_their_cells(variables, genes, types):
    model, blood, table = variables["model"], variables["blood"], variables["table"]
    groups = {model.column_labels_[np.flatnonzero(np.array(blood.feature_names) == gene)[0]] for gene in genes}
    (group,) = groups
    rates = model.block_parameters_["rates"][:, group]
    assert rates.max() > 2
    assert table[rates.argmax()].idxmax() in types
