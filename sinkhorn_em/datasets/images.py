"""Sets of images whose classes are known: MNIST, Fashion-MNIST, CIFAR-10, USPS, and the digits of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from .cifar import read_binary, read_jpegs
from .downloads import check_sum, data_folder, obtain, present, sha256_of
from .files import Dataset
from .idx import read_idx
from .image_sets import CIFAR10, DIGIT_IMAGES, FASHION_MNIST, MNIST, USPS, ImageSet, assemble, parts_of
from .usps import read_hdf5, read_libsvm

JPEGS = "cifar10_jpeg.zip"
HDF5 = "usps.h5"


def fetch_mnist(
    *,
    subset: str = "train",
    data_home: str | Path | None = None,
    download: bool = True,
    sha256: dict[str, str] | None = None,
    return_X_y: bool = False,
) -> Dataset:
    """MNIST: 60 000 + 10 000 handwritten digits of 28 x 28 grey values.

    The authors published no sums. A download must have the md5 that torchvision records of the gzipped files; and whatever is
    read, from wherever, the sha256 of the decompressed files, which do not depend on who compressed them.

    Parameters
    ----------
    subset : {"train", "test", "all"}
        The training set, the test set, or the one followed by the other.
    data_home : path, optional
        Folder of the files: they are looked for in its subfolder ``mnist``, then in itself. None: the environment variable
        ``SINKHORN_EM_DATA``, else ``pooch.os_cache("sinkhorn-em")``.
    download : bool
        Whether to download to the subfolder what is in neither (needs the extra ``fetch``).
    sha256 : dict, optional
        Expected sums by name of file, without .gz; they take the place of those that are known.
    return_X_y : bool
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        ``images`` (n, 28, 28) uint8; ``data`` (n, 784), a view of them; ``target`` (n,) int64, codes into ``target_names``;
        ``maximum``, the value of full intensity, 255 (divide by it for values in [0, 1]); ``name``; ``sha256`` of the files
        read; ``DESCR``.

    Raises
    ------
    ValueError
        If subset is no such word, or a file is damaged or another one: in its sum, its first bytes, its number of images, or
        its labels.
    FileNotFoundError
        If a file is absent and may not be downloaded.
    ImportError
        If a package of the extra ``fetch`` is needed and absent.

    References
    ----------
    LeCun, Bottou, Bengio and Haffner 1998, Proceedings of the IEEE 86, 2278-2324.
    """
    return _fetch_idx(MNIST, subset, data_home, download, sha256, return_X_y)


def fetch_fashion_mnist(
    *,
    subset: str = "train",
    data_home: str | Path | None = None,
    download: bool = True,
    sha256: dict[str, str] | None = None,
    return_X_y: bool = False,
) -> Dataset:
    """Fashion-MNIST: 60 000 + 10 000 garments of 28 x 28 grey values, 10 classes of equal size.

    A download must have the md5 that the authors publish; and whatever is read the sha256 of the decompressed files.

    Parameters
    ----------
    subset, data_home, download, sha256, return_X_y
        As in :func:`fetch_mnist`; the subfolder is ``fashion-mnist``.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`fetch_mnist`.

    Raises
    ------
    ValueError, FileNotFoundError, ImportError
        As in :func:`fetch_mnist`.

    References
    ----------
    Xiao, Rasul and Vollgraf 2017, arXiv:1708.07747; github.com/zalandoresearch/fashion-mnist.
    """
    return _fetch_idx(FASHION_MNIST, subset, data_home, download, sha256, return_X_y)


def fetch_cifar10(
    *,
    subset: str = "train",
    data_home: str | Path | None = None,
    download: bool = True,
    sha256: dict[str, str] | None = None,
    return_X_y: bool = False,
) -> Dataset:
    """CIFAR-10: 50 000 + 10 000 colour images of 32 x 32, 10 classes of equal size.

    Files, the first that is there: ``cifar-10-binary.tar.gz``, which is also the one that is downloaded (162 MB); it must have the
    md5 that the author publishes, and the sha256 that TensorFlow Datasets records. Else ``cifar10_jpeg.zip``, if you have it: the
    same images as ``{train,test}/class/number.jpg``, decoded anew at each call (needs the extra ``fetch``). JPEG loses a little of
    them, so that ``name`` is then "CIFAR-10 (JPEG)"; no sum of it is known, pin the one returned. **Its images come sorted by class
    and number**: shuffle them before you take the first ones.

    Parameters
    ----------
    subset, data_home, download, sha256, return_X_y
        As in :func:`fetch_mnist`; the subfolder is ``cifar10``, and sums are those of the archives.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`fetch_mnist`; ``images`` (n, 32, 32, 3) red, green and blue, ``data`` (n, 3072).

    Raises
    ------
    ValueError, FileNotFoundError, ImportError
        As in :func:`fetch_mnist`.

    References
    ----------
    Krizhevsky 2009, Learning multiple layers of features from tiny images; www.cs.toronto.edu/~kriz/cifar.html.
    """
    parts = parts_of(subset)
    places = _places(CIFAR10, data_home)
    (remote,) = CIFAR10.remotes
    archive, jpegs = present(remote.name, places), present(JPEGS, places)
    if archive is None and jpegs is not None:
        sums = sha256_of([jpegs], sha256 or {}, CIFAR10.name)
        known = CIFAR10._replace(name="CIFAR-10 (JPEG)")
        return assemble(known, parts, read_jpegs(jpegs, parts), sums, return_X_y)
    archive = archive or obtain(remote, places, download)
    sums = sha256_of([archive], CIFAR10.sums | (sha256 or {}), CIFAR10.name)
    return assemble(CIFAR10, parts, read_binary(archive, parts), sums, return_X_y)


def fetch_usps(
    *,
    subset: str = "train",
    data_home: str | Path | None = None,
    download: bool = True,
    sha256: dict[str, str] | None = None,
    return_X_y: bool = False,
) -> Dataset:
    """USPS: 7291 + 2007 handwritten digits of 16 x 16 grey values, from envelopes; classes of unequal size.

    Files, the first that is there: ``usps.h5``, groups train and test with data (n, 256) in [0, 1] and target (n,); else LIBSVM's
    ``usps.bz2`` and ``usps.t.bz2``, which are also those that are downloaded, with values in [-1, 1], mapped to [0, 1]. **No
    publisher gives sums**: a download must have the md5 that torchvision records; the sha256 of what was read is returned, to be
    pinned.

    Parameters
    ----------
    subset, data_home, download, sha256, return_X_y
        As in :func:`fetch_mnist`; the subfolder is ``usps``, and sums are those of the files as they are.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`fetch_mnist`, but ``images`` (n, 16, 16) are float32 in [0, 1], ``data`` (n, 256), and ``maximum`` 1.

    Raises
    ------
    ValueError, FileNotFoundError, ImportError
        As in :func:`fetch_mnist`.

    References
    ----------
    Hull 1994, IEEE Transactions on Pattern Analysis and Machine Intelligence 16, 550-554;
    www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets.
    """
    parts = parts_of(subset)
    places = _places(USPS, data_home)
    table = present(HDF5, places)
    if table is not None:
        sums = sha256_of([table], sha256 or {}, USPS.name)
        return assemble(USPS, parts, read_hdf5(table, parts), sums, return_X_y)
    remotes = dict(zip(USPS.sizes, USPS.remotes, strict=True))
    texts = [obtain(remotes[part], places, download) for part in parts]
    sums = sha256_of(texts, USPS.sums | (sha256 or {}), USPS.name)
    return assemble(USPS, parts, [read_libsvm(text) for text in texts], sums, return_X_y)


def load_digit_images(
    *,
    subset: str = "train",
    data_home: str | Path | None = None,
    download: bool = True,
    sha256: dict[str, str] | None = None,
    return_X_y: bool = False,
) -> Dataset:
    """The 1797 handwritten digits of 8 x 8 that scikit-learn ships, with the arguments and fields of the other sets of images.

    Parameters
    ----------
    subset : {"train", "all"}
        Without effect: there is one set.
    data_home, download, sha256
        Without effect: there is no file to find.
    return_X_y : bool
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As in :func:`fetch_mnist`; ``images`` (1797, 8, 8) uint8, ``data`` (1797, 64), ``maximum`` 16.

    Raises
    ------
    ValueError
        If subset is "test", which the digits have not, or no such word.

    References
    ----------
    Alpaydin and Kaynak 1998, UCI Machine Learning Repository.
    """
    if "train" not in parts_of(subset):
        raise ValueError(f"subset={subset!r}: the digits of scikit-learn have no test set; take 'train', all of them.")
    digits = load_digits()
    return assemble(DIGIT_IMAGES, ["train"], [(digits.images.astype(np.uint8), digits.target)], {}, return_X_y)


IMAGE_SETS: dict[str, Callable[..., Dataset]] = {  # all take the same arguments
    "mnist": fetch_mnist,
    "fashion": fetch_fashion_mnist,
    "cifar10": fetch_cifar10,
    "usps": fetch_usps,
    "digits": load_digit_images,
}


def _places(known: ImageSet, data_home: str | Path | None) -> tuple[Path, Path]:
    """Folders that may have the files of a set: its subfolder first, since sets have files of the same name."""
    folder = data_folder(data_home)
    return folder / known.folder, folder


def _fetch_idx(
    known: ImageSet,
    subset: str,
    data_home: str | Path | None,
    download: bool,
    sha256: dict[str, str] | None,
    return_X_y: bool,
) -> Dataset:
    """A set of MNIST's kind: a file of images and one of labels for each part."""
    parts = parts_of(subset)
    places = _places(known, data_home)
    expected = known.sums | (sha256 or {})
    pairs = {"train": known.remotes[:2], "test": known.remotes[2:]}
    loaded, sums = [], {}
    for part in parts:
        arrays = []
        for remote, n_dimensions in zip(pairs[part], (3, 1), strict=True):
            path = obtain(remote, places, download)
            array, found = read_idx(path, n_dimensions)
            name = path.name.removesuffix(".gz")
            check_sum(path, found, expected.get(name), known.name)
            arrays.append(array)
            sums[name] = found
        loaded.append((arrays[0], arrays[1]))
    return assemble(known, parts, loaded, sums, return_X_y)
