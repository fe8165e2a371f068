"""Sets of images from tiny files made up here: every format, what is wrong with a file, and downloads."""

import bz2
import gzip
import hashlib
import inspect
import io
import tarfile
import zipfile

import numpy as np
import pytest

from sinkhorn_em.datasets import (
    IMAGE_SETS,
    downloads,
    fetch_cifar10,
    fetch_fashion_mnist,
    fetch_mnist,
    fetch_usps,
    images,
)
from sinkhorn_em.datasets.idx import read_idx

SIZES = {"train": 3, "test": 2}
IDX_NAMES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
TRAIN = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)
TEST = 255 - TRAIN[:2]
LABELS = {"train": [7, 0, 9], "test": [1, 4]}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def same(dataset, expected, labels):
    """Whether a data set has these images and labels, and the other fields follow."""
    assert dataset.images.dtype == np.asarray(expected).dtype
    assert np.array_equal(dataset.images, expected)
    assert dataset.target.dtype == np.int64
    assert dataset.target.tolist() == labels
    assert np.array_equal(dataset.data, np.reshape(expected, (len(expected), -1)))
    assert np.shares_memory(dataset.data, dataset.images)
    assert dataset.images.flags.writeable
    assert dataset.DESCR.startswith(f"{dataset.name}: {len(expected)} images")
    return True


@pytest.fixture
def tiny(monkeypatch):
    """Pretends that every set has three training and two test images, and that no sum is known."""
    for name in ("MNIST", "FASHION_MNIST", "CIFAR10", "USPS"):
        monkeypatch.setattr(images, name, getattr(images, name)._replace(sizes=SIZES, sums={}))


@pytest.fixture
def no_download(monkeypatch):
    """Whoever asks for pooch fails the test."""
    given = downloads.import_module

    def refuse(module):
        assert module != "pooch"
        return given(module)

    monkeypatch.setattr(downloads, "import_module", refuse)


# MNIST's format


def idx(array):
    array = np.asarray(array, dtype=np.uint8)
    return bytes((0, 0, 8, array.ndim)) + np.array(array.shape, dtype=">i4").tobytes() + array.tobytes()


def write_idx(folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    contents = [idx(array) for array in (TRAIN, LABELS["train"], TEST, LABELS["test"])]
    for name, content in (dict(zip(IDX_NAMES, contents, strict=True)) | changes).items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    return folder


@pytest.mark.parametrize(("fetch", "subfolder"), [(fetch_mnist, "mnist"), (fetch_fashion_mnist, "fashion-mnist")])
def test_idx_files_are_found_in_the_subfolder_and_in_the_folder_itself(tiny, no_download, tmp_path, fetch, subfolder):
    write_idx(tmp_path / subfolder)
    for home in (tmp_path, str(tmp_path), tmp_path / subfolder):
        assert same(fetch(data_home=home), TRAIN, LABELS["train"])
    assert same(fetch(data_home=tmp_path, subset="test"), TEST, LABELS["test"])
    both = fetch(data_home=tmp_path, subset="all", download=False)
    assert same(both, np.concatenate([TRAIN, TEST]), LABELS["train"] + LABELS["test"])
    assert both.maximum == 255
    assert list(both.sha256) == IDX_NAMES


def test_the_subfolder_comes_before_the_folder(tiny, tmp_path):
    """MNIST and Fashion-MNIST have files of the same names."""
    write_idx(tmp_path, **{IDX_NAMES[0]: idx(255 - TRAIN)})
    write_idx(tmp_path / "fashion-mnist")
    assert same(fetch_mnist(data_home=tmp_path), 255 - TRAIN, LABELS["train"])
    assert same(fetch_fashion_mnist(data_home=tmp_path), TRAIN, LABELS["train"])


def test_the_environment_names_the_folder_and_the_argument_overrules_it(tiny, no_download, tmp_path, monkeypatch):
    write_idx(tmp_path / "there" / "mnist")
    write_idx(tmp_path / "here", **{IDX_NAMES[1]: idx([1, 1, 1])})
    monkeypatch.setenv("SINKHORN_EM_DATA", str(tmp_path / "there"))
    assert fetch_mnist().target.tolist() == LABELS["train"]
    assert fetch_mnist(data_home=tmp_path / "here").target.tolist() == [1, 1, 1]


def test_data_and_target_alone_can_be_had(tiny, tmp_path):
    data, target = fetch_mnist(data_home=write_idx(tmp_path), return_X_y=True)
    assert np.array_equal(data, TRAIN.reshape(3, 784))
    assert target.tolist() == LABELS["train"]


def test_sums_are_of_the_decompressed_files_and_are_checked(tiny, tmp_path):
    write_idx(tmp_path)
    sums = fetch_mnist(data_home=tmp_path).sha256
    assert sums == {IDX_NAMES[0]: sha256(idx(TRAIN)), IDX_NAMES[1]: sha256(idx(LABELS["train"]))}
    path = tmp_path / f"{IDX_NAMES[0]}.gz"
    path.write_bytes(gzip.compress(idx(TRAIN), compresslevel=1))
    assert same(fetch_mnist(data_home=tmp_path, sha256=sums), TRAIN, LABELS["train"])
    path.write_bytes(gzip.compress(idx(TRAIN // 2)))
    with pytest.raises(
        ValueError, match=rf"train-images-idx3-ubyte.gz has the sha256 .*, expected {sums[IDX_NAMES[0]]}"
    ):
        fetch_mnist(data_home=tmp_path, sha256=sums)


@pytest.mark.parametrize(("name", "fetch"), [("MNIST", fetch_mnist), ("Fashion-MNIST", fetch_fashion_mnist)])
def test_a_good_file_of_another_set_is_seen_by_its_sum_and_is_not_to_be_deleted(tmp_path, name, fetch):
    """Sets of MNIST's kind have files of the same name."""
    write_idx(tmp_path)
    with pytest.raises(ValueError, match=rf"expected \w+, that of {name}: it may be of another data set") as error:
        fetch(data_home=tmp_path, download=False)
    assert "move this one away" in str(error.value) and "give its sum in sha256" in str(error.value)
    assert "delete" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (IDX_NAMES[0], idx(LABELS["train"]), r"begins with the bytes 00 00 08 01, expected 00 00 08 03 and 3 lengths"),
        (IDX_NAMES[1], b"", r"begins with the bytes , expected 00 00 08 01 and 1 lengths"),
        (IDX_NAMES[1], idx([1])[:6], r"begins with the bytes 00 00 08 01, expected 00 00 08 01 and 1 lengths"),
        (IDX_NAMES[0], idx(TRAIN)[:-1], r"has 2351 bytes for an array of shape \(3, 28, 28\)"),
        (IDX_NAMES[0], idx(TRAIN) + b"0", r"has 2353 bytes for an array of shape \(3, 28, 28\)"),
        (IDX_NAMES[0], idx(TRAIN[:2]), r"train images of MNIST have the shape \(2, 28, 28\), expected \(3, 28, 28\)"),
        (
            IDX_NAMES[0],
            idx(TRAIN[:, 1:]),
            r"train images of MNIST have the shape \(3, 27, 28\), expected \(3, 28, 28\)",
        ),
        (
            IDX_NAMES[1],
            idx([1, 2]),
            r"train labels of MNIST have the shape \(2,\), expected \(3,\), one label an image",
        ),
        (IDX_NAMES[1], idx([1, 10, 2]), r"train labels of MNIST must be whole numbers from 0 to 9, but label 1 is 10"),
    ],
)
def test_what_is_wrong_with_an_idx_file_is_said(tiny, tmp_path, name, content, message):
    write_idx(tmp_path, **{name: content})
    with pytest.raises(ValueError, match=message):
        fetch_mnist(data_home=tmp_path)


@pytest.mark.parametrize("spoil", [lambda whole: b"<html>", lambda whole: whole[:-9], lambda whole: whole[:20] + whole])
def test_a_damaged_gzip_is_named(tmp_path, spoil):
    path = tmp_path / "images.gz"
    path.write_bytes(spoil(gzip.compress(idx(TRAIN))))
    with pytest.raises(ValueError, match=r"images.gz is not gzipped, or damaged .*; delete it and get it again"):
        read_idx(path, 3)


# CIFAR-10

COLOURS = np.random.default_rng(0).integers(256, size=(12, 32, 32, 3), dtype=np.uint8)
CIFAR_LABELS = np.array([3, 9, 0, 1, 8, 7, 5, 5, 2, 4, 6, 1], dtype=np.uint8)
BATCHES = [
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
]


def batch(rows):
    """Two images as the author lays them out: a label, then all of red, all of green, all of blue."""
    planes = np.moveaxis(COLOURS[rows], 3, 1).reshape(-1, 3 * 32 * 32)
    return np.column_stack([CIFAR_LABELS[rows], planes]).tobytes()


def write_tar(folder, **changes):
    """Batches in another order, among other files, as in the author's archive."""
    contents = {name: batch([2 * i, 2 * i + 1]) for i, name in reversed(list(enumerate(BATCHES)))}
    contents = {"readme.html": b"<html>"} | contents | changes
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, content in contents.items():
            if content is not None:
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return folder


@pytest.fixture
def tiny_cifar(monkeypatch):
    monkeypatch.setattr(images, "CIFAR10", images.CIFAR10._replace(sizes={"train": 10, "test": 2}, sums={}))


def test_the_binary_archive_gives_colours_last_in_the_order_of_the_batches(tiny_cifar, no_download, tmp_path):
    write_tar(tmp_path)
    assert same(fetch_cifar10(data_home=tmp_path), COLOURS[:10], CIFAR_LABELS[:10].tolist())
    assert same(fetch_cifar10(data_home=tmp_path, subset="test"), COLOURS[10:], CIFAR_LABELS[10:].tolist())
    whole = fetch_cifar10(data_home=tmp_path, subset="all")
    assert same(whole, COLOURS, CIFAR_LABELS.tolist())
    assert whole.name == "CIFAR-10"
    assert whole.target_names[[0, 3, 9]].tolist() == ["airplane", "cat", "truck"]
    assert whole.sha256 == {"cifar-10-binary.tar.gz": sha256((tmp_path / "cifar-10-binary.tar.gz").read_bytes())}


def test_the_sum_of_the_binary_archive_is_known(tmp_path):
    write_tar(tmp_path)
    with pytest.raises(ValueError, match=r"has the sha256 .*, expected c4a38c50a1bc5f3a"):
        fetch_cifar10(data_home=tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_batch_2.bin": None}, r"lacks data_batch_2.bin: it must be the binary version of CIFAR-10"),
        ({"data_batch_2.bin": b"123"}, r"has data_batch_2.bin of 3 bytes, no multiple of 3073"),
        (
            {"data_batch_2.bin": batch([2])},
            r"train images of CIFAR-10 have the shape \(9, 32, 32, 3\), expected \(10, 32",
        ),
    ],
)
def test_what_is_wrong_with_the_binary_archive_is_said(tiny_cifar, tmp_path, changes, message):
    write_tar(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        fetch_cifar10(data_home=tmp_path)


@pytest.mark.parametrize("spoil", [lambda whole: b"<html>", lambda whole: whole[: len(whole) // 2]])
def test_a_damaged_tar_is_named(tiny_cifar, tmp_path, spoil):
    path = write_tar(tmp_path) / "cifar-10-binary.tar.gz"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError, match=r"cifar-10-binary.tar.gz is no gzipped tar, or damaged"):
        fetch_cifar10(data_home=tmp_path)


def jpeg(colour, mode="RGB", size=(32, 32)):
    image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    image.new(mode, size, colour).save(stream, "JPEG", quality=95)
    return stream.getvalue()


PLAIN = {  # in no order
    "train/cat/0010.jpg": (200, 30, 60),
    "train/cat/9.jpg": (10, 120, 220),
    "test/truck/0000.jpg": (255, 255, 255),
    "train/airplane/0001.jpg": (0, 0, 0),
    "test/bird/0003.jpg": (90, 90, 10),
}


def write_zip(folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    contents = {name: jpeg(colour) for name, colour in PLAIN.items()} | {"readme.txt": b"text"} | changes
    with zipfile.ZipFile(folder / "cifar10_jpeg.zip", "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return folder


def test_jpeg_images_come_by_class_then_number_and_are_named_so(tiny, no_download, tmp_path):
    write_zip(tmp_path / "cifar10")
    for subset, names in {
        "train": ["train/airplane/0001.jpg", "train/cat/9.jpg", "train/cat/0010.jpg"],
        "test": ["test/bird/0003.jpg", "test/truck/0000.jpg"],
    }.items():
        dataset = fetch_cifar10(data_home=tmp_path, subset=subset)
        assert dataset.name == "CIFAR-10 (JPEG)"
        assert dataset.images.dtype == np.uint8
        assert dataset.images.shape == (len(names), 32, 32, 3)
        exact = np.array([PLAIN[name] for name in names])[:, None, None]
        assert (
            np.abs(dataset.images - exact).max() <= 2
        )  # rounding of the colour transform, which JPEG stores as integers
        assert dataset.target_names[dataset.target].tolist() == [name.split("/")[1] for name in names]
    assert list(dataset.sha256) == ["cifar10_jpeg.zip"]


def test_the_original_images_come_before_jpeg(tiny_cifar, tmp_path):
    write_zip(write_tar(tmp_path))
    assert fetch_cifar10(data_home=tmp_path, subset="test").name == "CIFAR-10"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train/cat/9.jpg": b"text"}, r"train/cat/9.jpg is no image, or damaged"),
        (
            {"train/cat/11.jpg": None},
            r"train images of CIFAR-10 \(JPEG\) have the shape \(4, 32, 32, 3\), expected \(3, 32",
        ),
        ({"train/cat/9.jpg": "L"}, r"train/cat/9.jpg has the shape \(32, 32\), expected \(32, 32, 3\)"),
    ],
)
def test_what_is_wrong_with_a_jpeg_is_said(tiny, tmp_path, changes, message):
    made = {None: lambda: jpeg((1, 2, 3)), "L": lambda: jpeg(7, mode="L")}
    write_zip(tmp_path, **{name: made.get(content, lambda c=content: c)() for name, content in changes.items()})
    with pytest.raises(ValueError, match=message):
        fetch_cifar10(data_home=tmp_path)


def test_a_damaged_zip_is_named(tiny, tmp_path):
    pytest.importorskip("PIL.Image")
    (tmp_path / "cifar10_jpeg.zip").write_bytes(b"<html>")
    with pytest.raises(ValueError, match=r"cifar10_jpeg.zip is no zip, or damaged"):
        fetch_cifar10(data_home=tmp_path)


# USPS

GREY = np.random.default_rng(1).integers(5, size=(5, 16, 16)).astype(np.float32) / 4  # exact in binary
USPS_LABELS = [6, 0, 9, 3, 3]


def write_hdf5(folder, data=GREY, target=USPS_LABELS):
    h5py = pytest.importorskip("h5py")
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / "usps.h5", "w") as file:
        for part, rows in {"train": slice(3), "test": slice(3, 5)}.items():
            file[f"{part}/data"] = data[rows].reshape(-1, 256)
            file[f"{part}/target"] = np.array(target)[rows]
    return folder


def write_libsvm(folder, shift=0):
    """Labels 1 to 10, values in [-1, 1]; zeros may be left out."""
    for name, rows in {"usps.bz2": range(3), "usps.t.bz2": range(3, 5)}.items():
        lines = []
        for i in rows:
            values = 2 * GREY[i].ravel() - 1 + shift
            pairs = " ".join(f"{at}:{value:g}" for at, value in enumerate(values, start=1) if value != 0)
            lines.append(f"{USPS_LABELS[i] + 1} {pairs}\n")
        (folder / name).write_bytes(bz2.compress("".join(lines).encode()))
    return folder


@pytest.mark.parametrize("write", [write_hdf5, write_libsvm])
def test_both_formats_of_usps_give_the_same_floats(tiny, no_download, tmp_path, write):
    write(tmp_path)
    assert same(fetch_usps(data_home=tmp_path), GREY[:3], USPS_LABELS[:3])
    assert same(fetch_usps(data_home=tmp_path, subset="test"), GREY[3:], USPS_LABELS[3:])
    whole = fetch_usps(data_home=tmp_path, subset="all")
    assert same(whole, GREY, USPS_LABELS)
    assert whole.maximum == 1
    assert whole.sha256 == {path.name: sha256(path.read_bytes()) for path in tmp_path.iterdir()}
    assert same(fetch_usps(data_home=tmp_path, subset="all", sha256=whole.sha256), GREY, USPS_LABELS)
    with pytest.raises(ValueError, match=r"usps\S* has the sha256 .*, expected 00"):
        fetch_usps(data_home=tmp_path, sha256=dict.fromkeys(whole.sha256, "00"))


@pytest.mark.parametrize("value", [-0.01, 1.01, np.nan, np.inf])
def test_values_of_usps_outside_the_unit_interval_are_refused(tiny, tmp_path, value):
    write_hdf5(tmp_path, data=np.where(np.arange(256).reshape(16, 16) == 7, np.float32(value), GREY))
    with pytest.raises(ValueError, match=r"usps.h5 has values outside \[0, 1\], or NaN"):
        fetch_usps(data_home=tmp_path)


def test_what_else_is_wrong_with_usps_is_said(tiny, tmp_path):
    write_hdf5(tmp_path, target=[6, 1.5, 9, 3, 3])
    with pytest.raises(ValueError, match=r"train labels of USPS must be whole numbers from 0 to 9, but label 1 is 1.5"):
        fetch_usps(data_home=tmp_path)
    (tmp_path / "usps.h5").write_bytes(b"<html>")
    with pytest.raises(ValueError, match=r"usps.h5 has no arrays data and target in groups train and test"):
        fetch_usps(data_home=tmp_path)
    (tmp_path / "usps.h5").unlink()
    write_libsvm(tmp_path, shift=0.5)
    with pytest.raises(ValueError, match=r"usps.bz2 has values outside \[-1, 1\], or NaN"):
        fetch_usps(data_home=tmp_path)
    (tmp_path / "usps.bz2").write_bytes(b"<html>")
    with pytest.raises(ValueError, match=r"usps.bz2 is no bzip2 of LIBSVM's text, or damaged"):
        fetch_usps(data_home=tmp_path)


# all of them


@pytest.mark.parametrize(("name", "fetch"), IMAGE_SETS.items())
def test_every_set_takes_the_same_arguments_and_names_a_wrong_subset(name, fetch, tmp_path):
    assert inspect.signature(fetch) == inspect.signature(fetch_mnist)
    with pytest.raises(ValueError, match=r"subset='valid' must be one of 'train', 'test', 'all'"):
        fetch(subset="valid", data_home=tmp_path)


FETCHED = [(name, fetch) for name, fetch in IMAGE_SETS.items() if name != "digits"]


@pytest.mark.parametrize(("name", "fetch"), FETCHED)
def test_nothing_is_downloaded_unless_allowed(name, fetch, tmp_path, no_download):
    with pytest.raises(
        FileNotFoundError, match=r"absent and download=False; get it from http.*, or pass download=True"
    ):
        fetch(data_home=tmp_path, download=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "fetch"), FETCHED)
def test_without_pooch_the_extra_is_named(name, fetch, tmp_path, monkeypatch):
    def absent(module):
        raise ImportError(f"No module named {module!r}")

    monkeypatch.setattr(downloads, "import_module", absent)
    with pytest.raises(ImportError, match=r"downloading public files needs pooch .*pip install 'sinkhorn-em\[fetch\]'"):
        fetch(data_home=tmp_path)
    for file, needed in ("cifar10_jpeg.zip", "PIL.Image"), ("usps.h5", "h5py"):
        (tmp_path / file).touch()
        if file.startswith(name):
            with pytest.raises(ImportError, match=rf"{file} needs {needed} .*pip install 'sinkhorn-em\[fetch\]'"):
                fetch(data_home=tmp_path)


@pytest.mark.parametrize(("name", "fetch"), FETCHED)
def test_a_download_goes_to_the_subfolder_and_must_have_the_recorded_md5(name, fetch, public, tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    folder, address = public
    for write in (write_idx, write_tar, write_libsvm):
        write(folder)
    known = {"mnist": "MNIST", "fashion": "FASHION_MNIST", "cifar10": "CIFAR10", "usps": "USPS"}[name]
    old = getattr(images, known)
    sizes = {"train": 10, "test": 2} if name == "cifar10" else SIZES
    moved = [remote._replace(url=f"{address}/{remote.name}") for remote in old.remotes]
    monkeypatch.setattr(images, known, old._replace(sizes=sizes, sums={}, remotes=tuple(moved)))
    with pytest.raises(ValueError, match=r"hash of downloaded file .* does not match"):  # by pooch
        fetch(data_home=tmp_path / "home")
    assert not [path for path in tmp_path.glob("home/**/*") if path.is_file()]
    right = [
        remote._replace(checksum=f"md5:{hashlib.md5((folder / remote.name).read_bytes()).hexdigest()}")
        for remote in moved
    ]
    monkeypatch.setattr(images, known, getattr(images, known)._replace(remotes=tuple(right)))
    first = fetch(data_home=tmp_path / "home", subset="all")
    assert {path.name for path in (tmp_path / "home" / old.folder).iterdir()} == {remote.name for remote in moved}
    again = fetch(data_home=tmp_path / "home", subset="all", download=False)
    assert same(again, first.images, first.target.tolist())
