"""The digits of scikit-learn, and what is published of the other sets of images, where their files are at hand."""

import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sinkhorn_em.datasets import fetch_cifar10, fetch_fashion_mnist, fetch_mnist, fetch_usps, images, load_digit_images


def counts(target):
    return np.bincount(target).tolist()


@pytest.mark.parametrize("subset", ["train", "all"])
def test_the_digits_are_scikit_learns_as_bytes(subset):
    given, digits = load_digits(), load_digit_images(subset=subset)
    assert digits.images.dtype == np.uint8
    assert np.array_equal(digits.images, given.images)
    assert np.array_equal(digits.data, given.data)
    assert np.array_equal(digits.target, given.target)
    assert digits.maximum == given.images.max() == 16


def test_the_digits_have_no_test_set():
    with pytest.raises(ValueError, match=r"subset='test': the digits of scikit-learn have no test set"):
        load_digit_images(subset="test")


def test_mnist_has_its_published_mean_deviation_and_classes(shared):
    """.1307 and .3081 are the constants that everybody standardises by."""
    train = fetch_mnist(data_home=shared / "data" / "images", download=False)
    frequency = (
        np.bincount(train.images.ravel(), minlength=256) / train.images.size
    )  # of grey values: no copy in floats
    grey = np.arange(256) / train.maximum
    mean = frequency @ grey
    assert round(mean, 4) == 0.1307
    assert round(np.sqrt(frequency @ (grey - mean) ** 2), 4) == 0.3081
    assert counts(train.target) == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert train.target[:5].tolist() == [5, 0, 4, 1, 9]
    test = fetch_mnist(subset="test", data_home=shared / "data" / "images", download=False)
    assert counts(test.target) == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.parametrize(("subset", "each"), [("train", 6000), ("test", 1000)])
def test_fashion_mnist_has_classes_of_equal_size(shared, subset, each):
    dataset = fetch_fashion_mnist(subset=subset, data_home=shared / "data" / "images", download=False)
    assert counts(dataset.target) == [each] * 10
    assert dataset.target_names[dataset.target[0]] == "Ankle boot"  # the first of both


def test_usps_has_the_counts_and_the_first_row_of_the_published_table(shared):
    """Hastie, Tibshirani and Friedman publish it in [-1, 1]: -.631, .862, -.167 are the first values above -1."""
    pytest.importorskip("h5py")
    whole = fetch_usps(subset="all", data_home=shared / "data" / "images", download=False)
    assert counts(whole.target[:7291]) == [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    assert counts(whole.target[7291:]) == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    assert whole.target[0] == 6
    assert 2 * whole.images[0, 0, 6:11] - 1 == pytest.approx([-1, -0.631, 0.862, -0.167, -1], abs=1e-6)  # float32


def test_the_jpeg_zip_has_images_of_ten_classes_by_name(shared, tmp_path, monkeypatch):
    """The first two test images of every class: to decode all takes seconds."""
    pytest.importorskip("PIL.Image")
    with zipfile.ZipFile(shared / "data" / "images" / "cifar10" / "cifar10_jpeg.zip") as whole:
        names = whole.namelist()
        some = [name for name in names if name.startswith("test/") and name.endswith(("/0000.jpg", "/0001.jpg"))]
        with zipfile.ZipFile(tmp_path / "cifar10_jpeg.zip", "w") as archive:
            for name in reversed(some):
                archive.writestr(name, whole.read(name))
    assert sum(images.CIFAR10.sizes.values()) == len(names)
    monkeypatch.setattr(images, "CIFAR10", images.CIFAR10._replace(sizes={"train": 0, "test": 20}))
    dataset = fetch_cifar10(subset="test", data_home=tmp_path, download=False)
    assert dataset.target.tolist() == np.repeat(np.arange(10), 2).tolist()
    brightness = dataset.images.reshape(20, -1).mean(axis=1)
    assert 50 < brightness.min() < brightness.max() < 220  # photographs, neither black nor white
