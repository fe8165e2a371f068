"""Views of images: of the same shape, different for each image, and the image itself where nothing may change."""

import pytest

torch = pytest.importorskip("torch")

from sinkhorn_em.deep.augment import Noise, RandomAffine  # noqa: E402


@pytest.mark.parametrize("shape", [(8, 6), (1, 8, 8), (3, 9, 7)])
def test_without_room_the_view_is_the_image(shape):
    x = torch.rand(5, *shape)
    still = RandomAffine(degrees=0, shift=0, scale=0, shear=0)
    torch.testing.assert_close(still(x), x, rtol=0, atol=1e-6)  # interpolation at the pixels themselves
    flat = RandomAffine(degrees=0, shift=0, scale=0, shear=0, shape=shape)
    torch.testing.assert_close(flat(x.flatten(1)), x.flatten(1), rtol=0, atol=1e-6)


def test_views_differ_and_move_the_centre_of_mass_no_further_than_they_may():
    x = torch.zeros(200, 21, 21)
    x[:, 10, 10] = 1.0
    views = RandomAffine(degrees=0, shift=0.2, scale=0, shear=0)(x)
    mass = views.sum((1, 2))
    places = torch.arange(21.0)
    down = (views.sum(2) * places).sum(1) / mass
    assert (down - 10).abs().max() <= 0.2 * 21 + 1e-3
    assert down.std() > 1  # uniform on +-4.2 has 2.4
    assert (down - 10).mean().abs() < 0.7  # four standard errors


def test_the_views_follow_the_random_state():
    x = torch.rand(4, 8, 8)
    torch.manual_seed(0)
    first = RandomAffine()(x)
    torch.manual_seed(0)
    assert torch.equal(first, RandomAffine()(x))
    assert Noise(0.5)(torch.zeros(2000)).std() == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("options", [{"degrees": -1}, {"scale": 1.0}, {"shift": float("nan")}])
def test_mistakes_are_named(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is"):
        RandomAffine(**options)
    with pytest.raises(ValueError, match="shape"):
        RandomAffine()(torch.zeros(3, 64))
