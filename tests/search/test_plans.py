"""Plans by columns: the same, in the same order, as if each was made from the one before it."""

import random
from dataclasses import replace

import pytest

from distir.search.log import rows_in, write_rows
from distir.search.plans import Plans
from distir.search.rows import COLUMNS, Row
from distir.search.space import Space
from distir.transform.strategy import AXES, SEARCHED, Strategy

SPACES = {
    "paper": Space(16, (64, 128)),
    "divisors": Space(12, (48,), (2, 3), all_divisors=True),
    "everything": Space(
        16,
        (32,),
        (2, 4),
        ("1f1b", "interleaved", "zb-v", "seq1f1b"),
        (0, 1, 3),
        (False, True),
        sums=("layer", "stage"),
        micro_batches=(1, 2),
        accumulate=(1, 2),
        fuse=None,
        overlap=(False, True),
        fixed={"D": (2, 4)},
        experts=(1, 2),
        context=(1, 2),
        kind=("allgather", "ring"),
        virtual=(2, 4),
        shard=(2,),
        sequence=(False, True),
        balance=("uniform", "memory"),
        etp=(0, 1),
        passes=(False, True),
        cp_experts=(False, True),
        recompute=("", "products"),
    ),
}


def one_by_one(space):
    """Each plan of a space from the plan that it is on the axes before."""
    found = [Strategy(d, t, p, context=c) for d, t, p, c in space._possible()]
    for axis in AXES:
        found = [replace(plan, **{axis.name: value}) for plan in found for value in axis.tried(space, plan)]
    return found


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_a_grid_has_the_plans_of_its_axes_in_their_order(space):
    """What an axis tries depends on the fields that it says, on no others."""
    assert [*space.grid()] == one_by_one(space)


def test_plans_by_columns_are_a_sequence():
    plans = SPACES["everything"].grid()
    each = [*plans]
    assert len(plans) == len(each)
    places = random.Random(1).sample(range(len(each)), 20)
    assert [plans[place] for place in places] == [each[place] for place in places]
    assert [plans.find(each[place]) for place in places] == places
    assert [*plans[5:50:7]] == each[5:50:7]
    assert [*Plans.of(each[:9])] == each[:9]
    assert plans[-1] in plans
    assert replace(each[0], skew=7.5) not in plans
    assert plans.column("data").tolist() == [plan.data for plan in each]


def test_rows_have_a_column_for_each_field_that_is_searched(tmp_path):
    """And files give back each plan, with the stages that annealing finds."""
    plans = [*SPACES["everything"].grid()]
    plans = [*plans[:: len(plans) // 50], replace(plans[-1], stages=(1, 3), recompute="full:2")]
    rows = [Row("m", 8, plan, 0.1, 80.0, 1, True, framework="megatron") for plan in plans]
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        write_rows(file, rows)
    assert rows_in(str(tmp_path / "rows.csv")) == rows
    assert {field.column for field in SEARCHED.values()} < {*COLUMNS}


def test_what_depends_on_few_fields_is_found_once_for_each_of_their_values():
    plans, asked = SPACES["everything"].grid(), []

    def of(plan):
        asked.append((plan.data, plan.zero))
        return 10 * plan.data + plan.zero

    assert plans.found(of, "data", "zero").tolist() == [10 * plan.data + plan.zero for plan in plans]
    assert len(asked) == len({*asked})
