"""AnnData: X or a layer is fitted, and labels are written back."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from sinkhorn_em import LatentBlockModel
from sinkhorn_em.coclustering import fit_anndata
from sinkhorn_em.datasets import simulate_latent_blocks

anndata = pytest.importorskip("anndata", reason="AnnData is the extra anndata")


@pytest.fixture
def drawn():
    rates = np.array([[0.3, 3.0], [3.0, 0.3], [2.0, 2.0]])
    return simulate_latent_blocks(60, 40, rates, family="poisson", random_state=0)


@pytest.fixture
def adata(drawn):
    cells, genes = [f"cell{i}" for i in range(60)], [f"gene{j}" for j in range(40)]
    counts = csr_matrix(drawn.data.astype(np.float32))
    X = anndata.AnnData(counts, pd.DataFrame(index=cells), pd.DataFrame(index=genes))
    X.layers["log"] = np.log1p(drawn.data)
    return X


def test_x_is_fitted_and_labels_are_written_back(adata, drawn):
    model = LatentBlockModel(3, 2, family="poisson", random_state=0)
    assert fit_anndata(model, adata) is model
    direct = LatentBlockModel(3, 2, family="poisson", random_state=0).fit(csr_matrix(drawn.data.astype(np.float32)))
    assert (adata.obs["block"].astype(int).to_numpy() == direct.row_labels_).all()
    assert (adata.var["block"].astype(int).to_numpy() == direct.column_labels_).all()
    assert isinstance(adata.obs["block"].dtype, pd.CategoricalDtype)
    assert np.array_equal(adata.obsm["block"], direct.row_responsibilities_)
    assert np.array_equal(adata.varm["block"], direct.column_responsibilities_)
    assert adata.uns["block"]["bound"] == direct.bound_


def test_a_layer_is_fitted_under_a_key(adata):
    fit_anndata(LatentBlockModel(3, 2, random_state=0), adata, layer="log", key="lbm")
    direct = LatentBlockModel(3, 2, random_state=0).fit(adata.layers["log"])
    assert (adata.obs["lbm"].astype(int).to_numpy() == direct.row_labels_).all()
    assert "block" not in adata.obs


def test_what_was_written_survives_a_file(adata, tmp_path):
    fit_anndata(LatentBlockModel(3, 2, family="poisson", random_state=0), adata)
    adata.write_h5ad(tmp_path / "fit.h5ad")
    again = anndata.read_h5ad(tmp_path / "fit.h5ad")
    assert again.obs["block"].tolist() == adata.obs["block"].tolist()
    assert np.array_equal(
        again.uns["block"]["block_parameters"]["rates"], adata.uns["block"]["block_parameters"]["rates"]
    )


def test_a_file_that_is_only_opened_is_read(adata, tmp_path):
    adata.write_h5ad(tmp_path / "counts.h5ad")
    opened = anndata.read_h5ad(tmp_path / "counts.h5ad", backed="r")
    fit_anndata(LatentBlockModel(3, 2, family="poisson", random_state=0), opened)
    fit_anndata(LatentBlockModel(3, 2, family="poisson", random_state=0), adata)
    assert opened.obs["block"].tolist() == adata.obs["block"].tolist()
    opened.file.close()


def test_bad_input_is_named(adata):
    with pytest.raises(TypeError, match=r"adata is a ndarray; it must be an AnnData object"):
        fit_anndata(LatentBlockModel(), np.eye(4))
    with pytest.raises(ValueError, match=r"layer is 'counts'; it must be one of \['log'\]"):
        fit_anndata(LatentBlockModel(), adata, layer="counts")
