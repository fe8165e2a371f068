"""Loaders of the classical data sets, one each, with the conventions of scikit-learn's ``load_iris``."""

from __future__ import annotations

from sinkhorn_em.datasets.files import Correction, Dataset, Source, load


def load_faithful(*, return_X_y: bool = False, as_frame: bool = False) -> Dataset:
    """Old Faithful: duration of 272 eruptions and time to the next one, in minutes, unlabelled.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Return pandas objects: ``data`` a DataFrame, ``target`` a Series.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        ``data`` (n, d) float64; ``target`` (n,) codes 0..K-1 into ``target_names``, both None if unlabelled;
        ``feature_names``; ``frame``, data and target in one DataFrame with ``as_frame``, else None;
        ``DESCR``, provenance, units and known flaws; ``filename``.

    References
    ----------
    Azzalini and Bowman (1990), Applied Statistics 39, 357-365.
    """
    return load(Source("faithful", ("eruptions", "waiting")), return_X_y, as_frame)


def load_crabs(*, return_X_y: bool = False, as_frame: bool = False) -> Dataset:
    """Leptograpsus crabs: 5 lengths in mm of 200 crabs, 50 of each of 2 colour forms x 2 sexes.

    Parameters
    ----------
    return_X_y, as_frame : bool, default=False
        As in :func:`load_faithful`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`load_faithful`; ``data`` (200, 5), 4 groups.

    References
    ----------
    Campbell and Mahon (1974), Australian Journal of Zoology 22, 417-425.
    """
    groups = ("blue male", "blue female", "orange male", "orange female")
    source = Source("crabs", ("FL", "RW", "CL", "CW", "BD"), ("sp", "sex"), groups)
    return load(source, return_X_y, as_frame)


def load_diabetes(*, corrected: bool = False, return_X_y: bool = False, as_frame: bool = False) -> Dataset:
    """Reaven and Miller: 3 blood measurements of 145 adults, 76 normal, 36 chemical, 33 overt diabetics.

    The column names are mclust's and misleading: ``glucose`` is fasting plasma glucose, ``insulin`` the area
    under the glucose curve, ``sspg`` the area under the insulin curve.

    Parameters
    ----------
    corrected : bool, default=False
        Mend the known flaw: row 104 (counted from 1) has insulin 45 instead of 455. False gives the data
        of mclust, to which published results refer.
    return_X_y, as_frame : bool, default=False
        As in :func:`load_faithful`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`load_faithful`; ``data`` (145, 3), 3 groups.

    References
    ----------
    Reaven and Miller (1979), Diabetologia 16, 17-24.
    """
    groups = ("Normal", "Chemical", "Overt")
    source = Source("diabetes", ("glucose", "insulin", "sspg"), ("class",), groups)
    return load(source, return_X_y, as_frame, correction=Correction(103, 1, 455.0) if corrected else None)


def load_banknote(*, return_X_y: bool = False, as_frame: bool = False) -> Dataset:
    """Swiss bank notes: 6 measurements in mm of 100 genuine and 100 counterfeit notes.

    Parameters
    ----------
    return_X_y, as_frame : bool, default=False
        As in :func:`load_faithful`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`load_faithful`; ``data`` (200, 6), 2 groups.

    References
    ----------
    Flury and Riedwyl (1988), Multivariate Statistics: A Practical Approach. Chapman and Hall.
    """
    features = ("Length", "Left", "Right", "Bottom", "Top", "Diagonal")
    source = Source("banknote", features, ("Status",), ("genuine", "counterfeit"))
    return load(source, return_X_y, as_frame)


def load_thyroid(*, return_X_y: bool = False, as_frame: bool = False) -> Dataset:
    """Thyroid gland: 5 laboratory tests of 215 patients, 150 normal, 35 hyper- and 30 hypothyroid.

    Parameters
    ----------
    return_X_y, as_frame : bool, default=False
        As in :func:`load_faithful`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`load_faithful`; ``data`` (215, 5), 3 groups.

    References
    ----------
    Coomans et al. (1983), Methods of Information in Medicine 22, 93-101.
    """
    source = Source("thyroid", ("RT3U", "T4", "T3", "TSH", "DTSH"), ("Diagnosis",), ("Normal", "Hyper", "Hypo"))
    return load(source, return_X_y, as_frame)


def load_galaxies(*, corrected: bool = False, return_X_y: bool = False, as_frame: bool = False) -> Dataset:
    """Galaxies: velocities in km/s of 82 galaxies in the Corona Borealis region, sorted, unlabelled.

    Parameters
    ----------
    corrected : bool, default=False
        Mend the known flaw: row 78 (counted from 1) is 26690 instead of 26960. False gives the data
        of MASS, to which many published results refer.
    return_X_y, as_frame : bool, default=False
        As in :func:`load_faithful`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`load_faithful`; ``data`` (82, 1).

    References
    ----------
    Roeder (1990), Journal of the American Statistical Association 85, 617-624.
    """
    source = Source("galaxies", ("velocity",))
    return load(source, return_X_y, as_frame, correction=Correction(77, 0, 26960.0) if corrected else None)


def load_acidity(*, return_X_y: bool = False, as_frame: bool = False) -> Dataset:
    """Acidity: log(ANC + 50) of 155 lakes, ANC the acid-neutralising capacity, unlabelled.

    Parameters
    ----------
    return_X_y, as_frame : bool, default=False
        As in :func:`load_faithful`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`load_faithful`; ``data`` (155, 1).

    References
    ----------
    Crawford (1994), Journal of the American Statistical Association 89, 259-267.
    """
    return load(Source("acidity", ("acidity",)), return_X_y, as_frame)


def load_chevron(*, return_X_y: bool = False, as_frame: bool = False) -> Dataset:
    """Chevron: a simulated minefield in the plane, 350 points of signal and 754 of noise.

    Parameters
    ----------
    return_X_y, as_frame : bool, default=False
        As in :func:`load_faithful`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`load_faithful`; ``data`` (1104, 2), 2 groups.

    References
    ----------
    Dasgupta and Raftery (1998), Journal of the American Statistical Association 93, 294-302.
    """
    return load(Source("chevron", ("x", "y"), ("class",), ("data", "noise")), return_X_y, as_frame)


def load_cross(*, return_X_y: bool = False, as_frame: bool = False) -> Dataset:
    """Cross: two simulated Gaussian groups of 250 about the origin, standard deviations (1, 9) and (9, 1).

    Parameters
    ----------
    return_X_y, as_frame : bool, default=False
        As in :func:`load_faithful`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`load_faithful`; ``data`` (500, 2), 2 groups.
    """
    return load(Source("cross", ("X1", "X2"), ("group",), ("1", "2")), return_X_y, as_frame)


def load_gvhd(subset: str = "positive", *, return_X_y: bool = False, as_frame: bool = False) -> Dataset:
    """Flow cytometry of graft-versus-host disease: 4 fluorescence intensities a cell, unlabelled.

    Parameters
    ----------
    subset : {"positive", "control"}, default="positive"
        The patient with the disease (9083 cells) or the control patient (6809 cells).
    return_X_y, as_frame : bool, default=False
        As in :func:`load_faithful`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`load_faithful`; ``data`` (9083, 4) or (6809, 4).

    References
    ----------
    Brinkman et al. (2007), Biology of Blood and Marrow Transplantation 13, 691-700.
    """
    names = {"positive": "GvHD.pos.csv.gz", "control": "GvHD.control.csv.gz"}
    if subset not in names:
        raise ValueError(f"subset={subset!r} must be 'positive' or 'control'; choose one of the two patients.")
    source = Source("gvhd", ("CD4", "CD8b", "CD3", "CD8"), file=names[subset])
    return load(source, return_X_y, as_frame)
