"""Co-clustering: latent block models fitted by variational Sinkhorn-EM.

`model` has the estimator, `loop` the fit, `schedule` its phases and starts, `starts` the starting labels, `criterion` the
integrated completed likelihood, `selection` the search for the numbers of clusters, `soundness` what a fit is
warned of, `annotated` AnnData.
"""

from .annotated import fit_anndata
from .model import LatentBlockModel
from .selection import BlockSearch, search_grid, search_moves

__all__ = ["BlockSearch", "LatentBlockModel", "fit_anndata", "search_grid", "search_moves"]
