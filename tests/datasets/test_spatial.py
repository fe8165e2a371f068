"""The prefrontal cortex from an .npz file, from an .h5ad file, and from public files, made up here and served locally."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_matrix, csr_matrix

from sinkhorn_em.datasets import annotated, downloads, fetch_dlpfc, visium
from sinkhorn_em.datasets.spots import dispersion, layer_names

GENES = np.array(["ENSG1", "ENSG2", "ENSG3", "ENSG4"])
BARCODES = np.array(["AAAC-1", "AAAG-1", "AACT-1", "CCGT-1", "GGTA-1"])
COUNTS = np.array([[0, 9, 0, 1], [3, 0, 0, 1], [0, 0, 0, 1], [1, 4, 0, 1], [2, 0, 0, 1]])
PLACES = np.array([[0, 0], [0, 2], [1, 1], [7, 3], [5, 5]])
LAYERS = np.array(["L1", "WM", "", "L3", "L1"])


def same(dataset):
    """Whether a data set is the one above."""
    assert dataset.counts.dtype == np.int64
    assert np.array_equal(dataset.counts.toarray(), COUNTS)
    assert dataset.genes.tolist() == GENES.tolist()
    assert dataset.barcodes.tolist() == BARCODES.tolist()
    assert np.array_equal(dataset.coordinates, PLACES)
    assert dataset.layers.tolist() == LAYERS.tolist()
    assert dataset.layer_names == ["L1", "L3", "WM"]
    assert "5 spots" in dataset.DESCR
    assert "4 genes" in dataset.DESCR
    return True


# an .npz file


@pytest.fixture
def archive(tmp_path):
    layer = np.where(LAYERS == "", "NA", LAYERS)
    path = tmp_path / "dlpfc151510_4g.npz"
    row, col = PLACES.T
    np.savez(path, counts=COUNTS.astype(np.uint16), genes=GENES, barcodes=BARCODES, row=row, col=col, layer=layer)
    return path


def test_section_151510_has_the_published_layers(shared):
    section = fetch_dlpfc(shared / "data")
    assert section.counts.shape == (4634, 500)
    assert section.layer_names == ["L1", "L2", "L3", "L4", "L5", "L6", "WM"]
    sizes = [int(np.sum(section.layers == name)) for name in section.layer_names]
    assert sizes == [1180, 650, 1774, 318, 310, 179, 184]
    assert np.sum(section.layers == "") == 39
    assert section.coordinates.min(axis=0).tolist() == [0, 0]
    assert section.coordinates.max(axis=0).tolist() == [77, 127]  # the array of a slide is 78 x 128
    assert len(set(section.barcodes.tolist())) == 4634
    at = section.barcodes.tolist().index("CCACTTTCCTTCTAGG-1")  # a line of the public table of positions
    assert section.coordinates[at].tolist() == [77, 113]


def test_myelin_genes_are_most_expressed_in_white_matter(shared):
    section = fetch_dlpfc(shared / "data" / "dlpfc" / "dlpfc151510_500g.npz")
    myelin = section.counts[:, section.genes == "ENSG00000197971"].toarray().ravel()  # MBP
    means = [myelin[section.layers == name].mean() for name in section.layer_names]
    assert section.layer_names[np.argmax(means)] == "WM"


def test_an_archive_is_found_by_name_in_its_folder_and_in_the_subfolder(archive, tmp_path):
    assert same(fetch_dlpfc(archive))
    assert same(fetch_dlpfc(tmp_path))
    (tmp_path / "dlpfc").mkdir()
    archive.rename(tmp_path / "dlpfc" / archive.name)
    assert same(fetch_dlpfc(str(tmp_path)))


def test_two_archives_in_a_folder_are_ambiguous(archive, tmp_path):
    (tmp_path / "dlpfc151510_9g.npz").write_bytes(archive.read_bytes())
    with pytest.raises(ValueError, match=r"several files dlpfc151510_\*g.npz: .*4g.npz, .*9g.npz; pass one of them"):
        fetch_dlpfc(tmp_path)


def test_the_sum_of_the_file_is_returned_and_checked(archive):
    sums = fetch_dlpfc(archive).sha256
    assert sums == {archive.name: hashlib.sha256(archive.read_bytes()).hexdigest()}
    assert same(fetch_dlpfc(archive, sha256=sums))
    with pytest.raises(ValueError, match=r"has the sha256 .*, expected 00, that of section"):
        fetch_dlpfc(archive, sha256={archive.name: "00"})


# choice of genes


def test_the_genes_kept_have_the_largest_variance_to_mean_in_the_order_of_the_file(archive):
    """Of ENSG1 to 4: 1.36 / 1.2, 12.64 / 2.6, 0 (all zero), 0 (constant)."""
    assert dispersion(csr_matrix(COUNTS)) == pytest.approx([1.36 / 1.2, 12.64 / 2.6, 0, 0], rel=1e-15)
    assert fetch_dlpfc(archive, n_genes=1).genes.tolist() == ["ENSG2"]
    two = fetch_dlpfc(archive, n_genes=2)
    assert two.genes.tolist() == ["ENSG1", "ENSG2"]
    assert np.array_equal(two.counts.toarray(), COUNTS[:, :2])
    assert fetch_dlpfc(archive, n_genes=3).genes.tolist() == ["ENSG1", "ENSG2", "ENSG3"]  # the first of ties
    assert same(fetch_dlpfc(archive, n_genes=None))
    assert same(fetch_dlpfc(archive, n_genes=500))


def test_dispersion_is_numpys_variance_over_mean():
    counts = np.random.default_rng(0).negative_binomial(2, 0.1, size=(300, 20))
    expected = counts.var(axis=0) / counts.mean(axis=0)
    assert dispersion(csr_matrix(counts)) == pytest.approx(expected, rel=1e-12)  # sums of 300 squares


@pytest.mark.parametrize("n_genes", [0, 2.5])
def test_a_number_of_genes_is_positive_and_whole(archive, n_genes):
    with pytest.raises(ValueError, match=rf"n_genes={n_genes} must be an integer of at least 1, or None"):
        fetch_dlpfc(archive, n_genes=n_genes)


# names of layers


@pytest.mark.parametrize("label", ["L4", "Layer4", "layer_4", "Layer 4", "l4"])
def test_every_spelling_of_a_layer_is_understood(label):
    assert layer_names([label, "WM"], "file").tolist() == ["L4", "WM"]


@pytest.mark.parametrize("label", ["NA", np.nan, None, "", pd.NA])
def test_a_missing_label_is_empty(label):
    assert layer_names(["L1", label], "file").tolist() == ["L1", ""]


@pytest.mark.parametrize("label", ["L7", "cluster 3", 4])
def test_another_label_is_named(label):
    with pytest.raises(ValueError, match=rf"file has the label '{label}'; layers are named"):
        layer_names(["L1", label], "file")


# an .h5ad file


def write_h5ad(path, **changes):
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"array_row": PLACES[:, 0], "array_col": PLACES[:, 1]}, index=BARCODES)
    obs["layer_guess"] = pd.Categorical(["Layer1", "WM", None, "Layer3", "Layer1"])
    parts = {"X": csr_matrix(COUNTS.astype(np.float32)), "obs": obs, "var": pd.DataFrame(index=GENES)} | changes
    raw = parts.pop("raw", None)
    table = anndata.AnnData(**parts)
    if raw is not None:
        table.raw = raw
    table.write_h5ad(path)
    return path


def test_an_h5ad_file_gives_the_same(tmp_path):
    assert same(fetch_dlpfc(write_h5ad(tmp_path / "section.h5ad")))


def test_a_dense_matrix_does_too(tmp_path):
    assert same(fetch_dlpfc(write_h5ad(tmp_path / "section.h5ad", X=COUNTS.astype(np.float32))))


def test_counts_are_found_beside_logarithms(tmp_path):
    logarithms = np.log1p(COUNTS)
    assert same(fetch_dlpfc(write_h5ad(tmp_path / "a.h5ad", X=logarithms, layers={"counts": COUNTS})))
    anndata = pytest.importorskip("anndata")
    raw = anndata.AnnData(COUNTS.astype(float), var=pd.DataFrame(index=GENES), obs=pd.DataFrame(index=BARCODES))
    some = {"X": logarithms[:, :2], "var": pd.DataFrame(index=GENES[:2]), "raw": raw}
    assert same(fetch_dlpfc(write_h5ad(tmp_path / "b.h5ad", **some)))


def test_logarithms_alone_are_refused(tmp_path):
    path = write_h5ad(tmp_path / "section.h5ad", X=np.log1p(COUNTS))
    with pytest.raises(ValueError, match=r"section.h5ad has no raw counts in .layers\['counts'\], .X or .raw.X"):
        fetch_dlpfc(path)


def test_the_column_of_layers_is_tried_or_named(tmp_path):
    obs = pd.DataFrame({"row": PLACES[:, 0], "col": PLACES[:, 1], "mine": LAYERS}, index=BARCODES)
    path = write_h5ad(tmp_path / "section.h5ad", obs=obs)
    assert same(fetch_dlpfc(path, layer_key="mine"))
    with pytest.raises(ValueError, match=r"none of layer_guess.* in .obs but row, col, mine; name one by layer_key"):
        fetch_dlpfc(path)
    with pytest.raises(ValueError, match=r"none of yours in .obs but row, col, mine"):
        fetch_dlpfc(path, layer_key="yours")


def test_pixels_serve_where_there_are_no_positions_on_the_array(tmp_path):
    obs = pd.DataFrame({"layer": LAYERS}, index=BARCODES)
    pixels = 10.5 * PLACES[:, ::-1]  # x is along columns
    section = fetch_dlpfc(write_h5ad(tmp_path / "a.h5ad", obs=obs, obsm={"spatial": pixels}))
    assert np.array_equal(section.coordinates, 10.5 * PLACES)
    with pytest.raises(ValueError, match=r"b.h5ad has neither array_row and array_col in .obs nor"):
        fetch_dlpfc(write_h5ad(tmp_path / "b.h5ad", obs=obs))


def absent(module):
    """Stands in for import_module on a machine without the optional package."""
    raise ImportError(f"No module named {module!r}")


def test_without_anndata_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(annotated, "import_module", absent)
    (tmp_path / "section.h5ad").touch()
    with pytest.raises(ImportError, match=r"section.h5ad needs anndata .*pip install 'sinkhorn-em\[anndata\]'"):
        fetch_dlpfc(tmp_path / "section.h5ad")


# the public files


def write_public(folder, *, barcodes=BARCODES, positions=BARCODES):
    """The public files as the authors lay them out: genes x spots, some spots outside the tissue, other sections' layers."""
    h5py = pytest.importorskip("h5py")
    paths = [
        folder / "h5" / "151510_filtered_feature_bc_matrix.h5",
        folder / visium.POSITIONS_COMMIT / "10X" / "151510" / "tissue_positions_list.txt",
        folder / visium.LAYERS_COMMIT / "10X" / "barcode_level_layer_map.tsv",
    ]
    for path in paths:
        path.parent.mkdir(parents=True)
    by_gene = csc_matrix(COUNTS.T)
    with h5py.File(paths[0], "w") as file:
        matrix = file.create_group("matrix")
        for key in ("data", "indices", "indptr", "shape"):
            matrix[key] = np.array(getattr(by_gene, key))
        matrix["barcodes"] = barcodes.astype("S")
        matrix["features/id"] = GENES.astype("S")
    rows = [f"{name},1,{r},{c},{100 * r},{100 * c}\n" for name, (r, c) in zip(positions, PLACES, strict=True)]
    paths[1].write_text("".join(["TTTT-1,0,77,127,7700,12700\n", *reversed(rows)]))
    labels = [f"{name}\t151510\t{layer}\n" for name, layer in zip(BARCODES, LAYERS, strict=True) if layer]
    paths[2].write_text("".join([f"{BARCODES[2]}\t151509\tL6\n", *labels]))


@pytest.fixture
def server(public, monkeypatch):
    """Serves the folder that it returns, in place of the bucket and the repository, and pretends that a section has five spots."""
    folder, address = public
    monkeypatch.setattr(visium, "BUCKET", f"{address}/h5")
    monkeypatch.setattr(visium, "REPOSITORY", address)
    monkeypatch.setitem(visium.SPOTS, "151510", 5)
    return folder


def test_the_public_files_are_downloaded_once_and_give_the_same(server, tmp_path, monkeypatch):
    write_public(server)
    section = fetch_dlpfc(data_home=tmp_path / "home")
    assert same(section)
    assert section.sha256 == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "home").iterdir()
    }
    assert len(section.sha256) == 3
    monkeypatch.setattr(visium, "BUCKET", "http://127.0.0.1:1/nothing")  # nobody listens
    assert same(fetch_dlpfc(data_home=tmp_path / "home", sha256=section.sha256))
    assert same(fetch_dlpfc(data_home=tmp_path / "home", download=False))


def test_a_download_of_another_sum_is_refused_and_not_kept(server, tmp_path):
    write_public(server)
    name = "151510_filtered_feature_bc_matrix.h5"
    with pytest.raises(ValueError, match=f"hash of downloaded file \\({name}\\)"):  # by pooch
        fetch_dlpfc(data_home=tmp_path / "home", sha256={name: "0" * 64})
    assert not (tmp_path / "home" / name).exists()


def test_the_cache_is_the_usual_place_of_the_system(server, tmp_path, monkeypatch):
    write_public(server)
    monkeypatch.delenv(downloads.VARIABLE, raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    assert same(fetch_dlpfc())
    assert len(list((tmp_path / "cache" / "sinkhorn-em").iterdir())) == 3


def test_a_file_of_another_section_is_seen_by_its_spots(server, tmp_path, monkeypatch):
    write_public(server)
    monkeypatch.setitem(visium.SPOTS, "151510", 4634)
    with pytest.raises(ValueError, match=r"has 5 spots, and section 151510 4634; delete .* and download it again"):
        fetch_dlpfc(data_home=tmp_path / "home")


def test_a_barcode_without_a_position_is_named(server, tmp_path):
    write_public(server, positions=np.array([*BARCODES[:-1], "other"]))
    with pytest.raises(ValueError, match=r"151510_tissue_positions_list.txt lacks 1 barcodes, among them GGTA-1"):
        fetch_dlpfc(data_home=tmp_path / "home")


def test_nothing_is_downloaded_unless_allowed(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent and download=False; get it from https://spatial-dlpfc.*h5"):
        fetch_dlpfc(data_home=tmp_path, download=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("home", [None, "given"])
def test_without_pooch_the_extra_is_named(tmp_path, monkeypatch, home):
    monkeypatch.delenv(downloads.VARIABLE, raising=False)
    monkeypatch.setattr(downloads, "import_module", absent)
    with pytest.raises(ImportError, match=r"public files needs pooch .*pip install 'sinkhorn-em\[fetch\]'"):
        fetch_dlpfc(data_home=home and tmp_path)


# what is not there


def test_twelve_sections_have_47681_spots():
    """The total of Maynard et al. 2021."""
    assert len(visium.SPOTS) == 12
    assert sum(visium.SPOTS.values()) == 47_681


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda at: fetch_dlpfc(section=151510), ValueError, "section=151510 must be one of 151507, .*, as a string"),
        (lambda at: fetch_dlpfc(at), FileNotFoundError, r"dlpfc151510_\*g.npz is neither in .* nor in its subfolder"),
        (lambda at: fetch_dlpfc(at, section="151507"), FileNotFoundError, r"dlpfc151507_\*g.npz"),
        (lambda at: fetch_dlpfc(at / "no.npz"), FileNotFoundError, "does not exist; leave path out to use the public"),
        (lambda at: fetch_dlpfc(at / "a.csv"), ValueError, "must be a folder, or a file that ends in .npz or .h5ad"),
        (
            lambda at: fetch_dlpfc(at / "part.npz"),
            ValueError,
            "part.npz lacks the arrays barcodes, col, genes, layer, r",
        ),
    ],
)
def test_what_is_wrong_with_a_path_is_said(tmp_path, call, error, message):
    (tmp_path / "a.csv").touch()
    np.savez(tmp_path / "part.npz", counts=COUNTS)
    with pytest.raises(error, match=message):
        call(tmp_path)


@pytest.mark.parametrize("value", [-1.0, 0.5, np.nan, np.inf])
def test_an_archive_of_something_else_than_counts_is_refused(archive, value):
    with np.load(archive) as file:
        content = dict(file)
    content["counts"] = np.where(COUNTS == 9, value, COUNTS)
    np.savez(archive, **content)
    with pytest.raises(ValueError, match=r"dlpfc151510_4g.npz has values that are no whole numbers from 0 up"):
        fetch_dlpfc(archive)
