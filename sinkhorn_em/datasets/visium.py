"""The public files of twelve sections of the prefrontal cortex: where they are, and how they are read.

Counts are in the authors' bucket, as Space Ranger wrote them (HDF5, genes x spots in compressed columns); positions on the slide
and layers are tables in the authors' repository, taken at the commits that have them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from .downloads import Remote, data_folder, obtain, optional, sha256_of
from .spots import Spots, integer_counts, layer_names

SPOTS = {  # of every section
    "151507": 4226,
    "151508": 4384,
    "151509": 4789,
    "151510": 4634,
    "151669": 3661,
    "151670": 3498,
    "151671": 4110,
    "151672": 4015,
    "151673": 3639,
    "151674": 3673,
    "151675": 3592,
    "151676": 3460,
}
BUCKET = "https://spatial-dlpfc.s3.us-east-2.amazonaws.com/h5"
REPOSITORY = "https://raw.githubusercontent.com/LieberInstitute/HumanPilot"
POSITIONS_COMMIT = "39ed906fad38095e3d7005e1b47f48c00b846371"
LAYERS_COMMIT = "5dc52dc562893754c1db263479c573a3c3292609"


def public_section(
    section: str, data_home: str | Path | None, download: bool, expected: dict[str, str]
) -> tuple[Spots, str, dict[str, str]]:
    """A section, the words for where it is from, and the sums of its files."""
    folder = data_folder(data_home)
    files = [obtain(_remote(name, url, expected), (folder,), download) for name, url in _addresses(section).items()]
    sums = sha256_of(files, expected, f"section {section}")
    counts, positions, layers = files
    spots = _assemble(section, *_read_counts(counts), positions, layers)
    if len(spots.barcodes) != SPOTS[section]:
        raise ValueError(
            f"{counts.name} has {len(spots.barcodes)} spots, and section {section} {SPOTS[section]}; "
            f"delete {counts} and download it again."
        )
    return spots, f"section {section} at {BUCKET} and {REPOSITORY}", sums


def _addresses(section: str) -> dict[str, str]:
    """Names of files and where they are: counts, positions, layers."""
    return {
        f"{section}_filtered_feature_bc_matrix.h5": f"{BUCKET}/{section}_filtered_feature_bc_matrix.h5",
        f"{section}_tissue_positions_list.txt": f"{REPOSITORY}/{POSITIONS_COMMIT}/10X/{section}/tissue_positions_list.txt",
        "barcode_level_layer_map.tsv": f"{REPOSITORY}/{LAYERS_COMMIT}/10X/barcode_level_layer_map.tsv",
    }


def _remote(name: str, url: str, expected: dict[str, str]) -> Remote:
    """A public file, which is checked against the sum that the caller gave."""
    return Remote(name, url, f"sha256:{expected[name]}" if name in expected else None)


def _read_counts(path: Path) -> tuple[Any, Any, Any]:
    """Counts (spots, genes), identifiers of genes, and barcodes of a file by Space Ranger."""
    with optional("h5py", path.name).File(path, "r") as file:
        matrix = file["matrix"]
        genes, barcodes = (np.asarray(matrix[key]).astype(str) for key in ("features/id", "barcodes"))
        parts = tuple(np.asarray(matrix[key]) for key in ("data", "indices", "indptr"))
    by_spot = csr_matrix(parts, shape=(len(barcodes), len(genes)))  # columns of genes x spots are rows of spots x genes
    return integer_counts(by_spot, path.name), genes, barcodes


def _assemble(section: str, counts: Any, genes: Any, barcodes: Any, positions: Path, layers: Path) -> Spots:
    """Counts with the positions and layers of their barcodes."""
    names = ["barcode", "in_tissue", "row", "column", "pixel_row", "pixel_column"]
    places = pd.read_csv(positions, header=None, names=names).set_index("barcode")
    lost = [barcode for barcode in barcodes if barcode not in places.index]
    if lost:
        raise ValueError(
            f"{positions.name} lacks {len(lost)} barcodes, among them {lost[0]}; delete it and download it again."
        )
    table = pd.read_csv(layers, sep="\t", header=None, names=["barcode", "section", "layer"], dtype=str)
    known = table[table["section"] == section].set_index("barcode")["layer"]
    return Spots(
        counts=counts,
        genes=genes,
        barcodes=barcodes,
        coordinates=places.loc[barcodes, ["row", "column"]].to_numpy(np.int64),
        layers=layer_names([known.get(barcode, "") for barcode in barcodes], layers.name),
    )
