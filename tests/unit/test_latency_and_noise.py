"""Quantiles from buckets (domain.latency), and which partitions are noisy (domain.partitions)."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tidemill.domain import latency
from tidemill.domain.partitions import PartitionLoad, noisy


def bucket_of(ms: float) -> int:
    """As tidemill.latency_bucket does it."""
    import math

    return min(200, math.floor(4 * math.log(max(ms, 1)) / math.log(2)))


@given(st.lists(st.integers(2, 10**8), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_quantile_lies_within_a_bucket_of_the_true_one(values: list[int], share: float) -> None:
    import math

    true = sorted(values)[math.ceil(share * len(values)) - 1]
    found = latency.quantile_ms(Counter(map(bucket_of, values)), share)
    assert found is not None
    assert true / 1.2 <= found <= true * 1.2


def test_quantile_of_nothing_is_none() -> None:
    assert latency.quantile_ms({}, 0.5) is None


def load(**waiting: int) -> list[PartitionLoad]:
    return [PartitionLoad(name, count, 1) for name, count in waiting.items()]


def test_flood_beside_a_quiet_partition_is_noisy() -> None:
    assert noisy(load(flood=100_000, quiet=3)) == {"flood"}


def test_partition_that_is_alone_disturbs_nobody() -> None:
    assert noisy(load(only=100_000)) == set()
    assert noisy(load(only=100_000, idle=0)) == set()


def test_equal_load_is_no_noise_however_high() -> None:
    assert noisy(load(a=10_000, b=9_000, c=12_000)) == set()


def test_few_jobs_are_no_noise() -> None:
    assert noisy(load(a=100, b=1)) == set()


def test_weight_allows_more() -> None:
    assert noisy([PartitionLoad("big", 5_000, 100), PartitionLoad("small", 10, 1)]) == set()
    assert noisy([PartitionLoad("big", 5_000, 1), PartitionLoad("small", 10, 1)]) == {"big"}
