"""What is known of sets of images before they are read, and the check of what was read against it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from . import cifar, usps
from .downloads import Remote
from .files import Dataset

PARTS = {"train": ("train",), "test": ("test",), "all": ("train", "test")}
DIGITS = tuple("0123456789")
GARMENTS = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


class ImageSet(NamedTuple):
    """A set of images."""

    name: str
    folder: str  # where its files may lie, beside those of other sets
    shape: tuple[int, ...]  # of an image
    maximum: int  # the value of full intensity
    sizes: dict[str, int]  # numbers of images of the parts
    target_names: tuple[str, ...]
    reference: str
    remotes: tuple[Remote, ...]  # the public files
    sums: dict[str, str]  # the sha256 that are known, by name of file


def _idx_remotes(address: str, md5: tuple[str, str, str, str]) -> tuple[Remote, ...]:
    """Images and labels of the training set, then of the test set."""
    names = (f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
    return tuple(Remote(name, f"{address}/{name}", f"md5:{total}") for name, total in zip(names, md5, strict=True))


MNIST = ImageSet(
    name="MNIST",
    folder="mnist",
    shape=(28, 28),
    maximum=255,
    sizes={"train": 60_000, "test": 10_000},
    target_names=DIGITS,
    reference="LeCun, Y., Bottou, L., Bengio, Y. and Haffner, P. (1998). Gradient-based learning applied to document recognition.\n"
    "Proceedings of the IEEE 86, 2278-2324.",
    remotes=_idx_remotes(
        "https://ossci-datasets.s3.amazonaws.com/mnist",  # a mirror; the authors' address answers no more
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    sums={
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)
FASHION_MNIST = ImageSet(
    name="Fashion-MNIST",
    folder="fashion-mnist",
    shape=(28, 28),
    maximum=255,
    sizes={"train": 60_000, "test": 10_000},
    target_names=GARMENTS,
    reference="Xiao, H., Rasul, K. and Vollgraf, R. (2017). Fashion-MNIST: a novel image dataset for benchmarking machine\n"
    "learning algorithms. arXiv:1708.07747.",
    remotes=_idx_remotes(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",  # the authors' own; it has no https
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    sums={
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
)
CIFAR10 = ImageSet(
    name="CIFAR-10",
    folder="cifar10",
    shape=(cifar.SIDE, cifar.SIDE, 3),
    maximum=255,
    sizes={"train": 50_000, "test": 10_000},
    target_names=cifar.CLASSES,
    reference="Krizhevsky, A. (2009). Learning multiple layers of features from tiny images. University of Toronto.",
    remotes=(
        Remote(
            "cifar-10-binary.tar.gz",
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
        ),
    ),
    sums={"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
)
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"
USPS = ImageSet(
    name="USPS",
    folder="usps",
    shape=(usps.SIDE, usps.SIDE),
    maximum=1,
    sizes={"train": 7291, "test": 2007},
    target_names=DIGITS,
    reference="Hull, J. J. (1994). A database for handwritten text recognition research. IEEE Transactions on Pattern Analysis\n"
    "and Machine Intelligence 16, 550-554.",
    remotes=(
        Remote("usps.bz2", f"{LIBSVM}/usps.bz2", "md5:ec16c51db3855ca6c91edd34d0e9b197"),
        Remote("usps.t.bz2", f"{LIBSVM}/usps.t.bz2", "md5:8ea070ee2aca1ac39742fdd1ef5ed118"),
    ),
    sums={},
)
DIGIT_IMAGES = ImageSet(
    name="digits",
    folder="",
    shape=(8, 8),
    maximum=16,
    sizes={"train": 1797},
    target_names=DIGITS,
    reference="Alpaydin, E. and Kaynak, C. (1998). Optical recognition of handwritten digits. UCI Machine Learning Repository;\n"
    "the test set there, as scikit-learn has it.",
    remotes=(),
    sums={},
)


def parts_of(subset: str) -> tuple[str, ...]:
    """The parts that a subset has, in order."""
    if subset not in PARTS:
        raise ValueError(f"subset={subset!r} must be one of {', '.join(map(repr, PARTS))}.")
    return PARTS[subset]


def assemble(
    known: ImageSet,
    parts: Iterable[str],
    loaded: list[tuple[Any, Any]],
    sums: dict[str, str],
    return_X_y: bool,
) -> Dataset:
    """Images and labels of the parts, one after the other, once they are found to be as they should."""
    for part, (images, target) in zip(parts, loaded, strict=True):
        _check(known, part, images, target)
    images = np.concatenate([images for images, _ in loaded])  # a copy, which may be written to
    target = np.concatenate([target for _, target in loaded]).astype(np.int64)
    data = images.reshape(len(images), -1)
    if return_X_y:
        return data, target
    size = " x ".join(map(str, known.shape))
    return Bunch(
        images=images,
        data=data,
        target=target,
        target_names=np.array(known.target_names),
        maximum=known.maximum,
        name=known.name,
        sha256=sums,
        DESCR=f"{known.name}: {len(images)} images, {size}, values 0 to {known.maximum}, of {len(known.target_names)} classes "
        f"({', '.join(known.target_names)}).\n\nFiles: {', '.join(sums) or 'in scikit-learn'}.\n\nSource: {known.reference}",
    )


def _check(known: ImageSet, part: str, images: Any, target: Any) -> None:
    """ValueError if a part has another number or shape of images, or labels of no class."""
    expected = (known.sizes[part], *known.shape)
    remedy = (
        f"their file may be of another data set, or damaged; name the folder that has those of {known.name}, or move it away and "
        "get it again."
    )
    if images.shape != expected:
        raise ValueError(
            f"the {part} images of {known.name} have the shape {images.shape}, expected {expected}: {remedy}"
        )
    if target.shape != expected[:1]:
        raise ValueError(
            f"the {part} labels of {known.name} have the shape {target.shape}, expected {expected[:1]}, one label an image: "
            f"{remedy}"
        )
    wrong = np.flatnonzero(~np.isin(target, np.arange(len(known.target_names))))
    if wrong.size:
        raise ValueError(
            f"the {part} labels of {known.name} must be whole numbers from 0 to {len(known.target_names) - 1}, "
            f"but label {wrong[0]} is {target[wrong[0]]}: {remedy}"
        )
