"""Measures of a clustering, or of a clustering of rows and columns, against the truth that scikit-learn lacks."""

from .classes import (
    ClusteringScores,
    balanced_clustering_accuracy,
    clustering_accuracy,
    clustering_report,
    clustering_scores,
    macro_f1,
    matched_labels,
)
from .coclusterings import coclustering_ari, coclustering_nmi
from .mixtures import matched_errors, mixing_distance, recovered

__all__ = [
    "ClusteringScores",
    "balanced_clustering_accuracy",
    "clustering_accuracy",
    "clustering_report",
    "clustering_scores",
    "coclustering_ari",
    "coclustering_nmi",
    "macro_f1",
    "matched_errors",
    "matched_labels",
    "mixing_distance",
    "recovered",
]
