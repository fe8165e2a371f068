"""Measures of a clustering, or of a clustering of rows and columns, against the truth that scikit-learn lacks."""

from .coclusterings import coclustering_ari, coclustering_nmi
from .mixtures import clustering_accuracy, matched_errors, matched_labels, mixing_distance, recovered

__all__ = [
    "clustering_accuracy",
    "coclustering_ari",
    "coclustering_nmi",
    "matched_errors",
    "matched_labels",
    "mixing_distance",
    "recovered",
]
