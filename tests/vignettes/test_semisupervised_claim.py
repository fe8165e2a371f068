"""What the vignette says of labels is so: one of each group is enough from several starts, and not for the others."""

import pytest


@pytest.fixture
def table(ran):
    _, variables = ran("semisupervised")
    return variables["table"]


def test_one_label_of_each_group_is_enough_from_several_starts(table):
    assert (table.loc["Sinkhorn-EM, 10 starts", "min"] >= 0.93).all()


def test_from_one_start_few_labels_may_mislead_and_five_do_not(table):
    worst = table.loc["Sinkhorn-EM, 1 start", "min"]
    assert worst[1] < 0.6
    assert (worst[[5, 10, 20]] > 0.9).all()


def test_em_stays_at_fewer(table):
    assert (table.loc["EM, 10 starts", "mean"] < table.loc["Sinkhorn-EM, 10 starts", "mean"]).all()


def test_named_crabs_alone_need_twenty_of_each_group(table):
    alone, together = (table.loc[name, "mean"] for name in ("named crabs alone", "Sinkhorn-EM, 10 starts"))
    assert (alone[[1, 2, 3, 5, 10]] < together[1]).all()
    assert alone[20] >= together[1] - 0.01
