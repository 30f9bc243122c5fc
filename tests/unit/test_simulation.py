"""A queue served under other rules (domain.simulation): what must hold whatever the load is."""

from collections import Counter
from statistics import median

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.domain.simulation import Arrival, Outcome, Rate, Rules, most_at_once, simulate

MS = st.integers(0, 2_000)
PARTITIONS = st.sampled_from(["", "a", "b", "c"])
ANY_JOB = st.builds(
    Arrival,
    at_ms=MS,
    run_ms=st.integers(1, 500),
    partition=PARTITIONS,
    job_type=st.sampled_from(["t", "u"]),
    priority=st.integers(-1, 1),
    cost=st.integers(1, 5),
    rate_class=st.sampled_from([None, "r"]),
    limit_key=st.sampled_from([None, "k"]),
    limit=st.sampled_from([None, 1, 2]),
)
PLAIN = st.builds(Arrival, at_ms=MS, run_ms=st.integers(1, 500), partition=PARTITIONS, priority=st.integers(-1, 1))
ALIKE = st.builds(Arrival, at_ms=MS, run_ms=st.just(100), partition=PARTITIONS, priority=st.integers(-1, 1))
ANY_RULES = st.builds(
    Rules,
    places=st.integers(1, 5),
    weights=st.dictionaries(PARTITIONS, st.integers(1, 10)),
    limits=st.dictionaries(st.just("t"), st.integers(1, 3)),
    rates=st.dictionaries(st.just("r"), st.builds(Rate, st.integers(1, 50), st.integers(1, 1_000), st.integers(1, 10))),
)


def waits(jobs: list[Arrival], outcome: Outcome) -> list[float]:
    return [start - job.at_ms for job, start in zip(jobs, outcome.starts_ms, strict=True) if start is not None]


@given(st.lists(ANY_JOB, max_size=60), ANY_RULES)
@settings(max_examples=150, deadline=None)
def test_work_is_conserved_and_no_limit_is_broken(jobs: list[Arrival], rules: Rules) -> None:
    outcome = simulate(jobs, rules)
    assert None not in outcome.starts_ms, "every limit lets at least one through in the end"
    assert all(wait >= 0 for wait in waits(jobs, outcome))
    assert outcome.busy_ms == sum(job.run_ms for job in jobs)
    spans = [(start or 0.0, (start or 0.0) + job.run_ms) for job, start in zip(jobs, outcome.starts_ms, strict=True)]
    assert most_at_once(spans) == outcome.most_running <= rules.places
    typed = [span for span, job in zip(spans, jobs, strict=True) if job.job_type == "t"]
    assert most_at_once(typed) <= rules.limits.get("t", rules.places)


@given(st.lists(PLAIN, max_size=60), ANY_RULES)
@settings(max_examples=100, deadline=None)
def test_no_place_is_idle_while_a_job_waits(jobs: list[Arrival], rules: Rules) -> None:
    outcome = simulate(jobs, rules)
    spans = [(start or 0.0, (start or 0.0) + job.run_ms) for job, start in zip(jobs, outcome.starts_ms, strict=True)]
    for job, (start, _) in zip(jobs, spans, strict=True):
        if start > job.at_ms:
            for moment in {job.at_ms, *(begin for begin, _ in spans if job.at_ms <= begin < start)}:
                assert sum(begin <= moment < end for begin, end in spans) == rules.places


@given(st.lists(st.builds(Arrival, at_ms=MS, run_ms=st.integers(1, 500)), max_size=60), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_one_more_place_lets_no_job_of_a_plain_queue_wait_longer(jobs: list[Arrival], places: int) -> None:
    """First come, first served (Kiefer & Wolfowitz 1955). In any other order a single job may lose: this is what can be claimed."""
    fewer, more = (simulate(jobs, Rules(count)) for count in (places, places + 1))
    for before, after in zip(fewer.starts_ms, more.starts_ms, strict=True):
        assert before is not None
        assert after is not None
        assert after <= before


@given(st.lists(ALIKE, max_size=60), ANY_RULES)
@settings(max_examples=100, deadline=None)
def test_more_places_never_make_the_total_wait_worse_for_jobs_of_one_length(jobs: list[Arrival], rules: Rules) -> None:
    fewer = simulate(jobs, Rules(rules.places, rules.weights))
    more = simulate(jobs, Rules(rules.places + 1, rules.weights))
    assert sum(waits(jobs, more)) <= sum(waits(jobs, fewer)) + 1e-6


@given(st.lists(ALIKE, max_size=60), ANY_RULES, st.dictionaries(PARTITIONS, st.integers(1, 10)))
@settings(max_examples=100, deadline=None)
def test_weights_move_waits_between_partitions_and_change_no_total(jobs: list[Arrival], rules: Rules, weights: dict[str, int]) -> None:
    before, after = (simulate(jobs, Rules(rules.places, given)) for given in (rules.weights, weights))
    assert abs(sum(waits(jobs, before)) - sum(waits(jobs, after))) < 1e-6


def test_weights_decide_the_shares_while_all_wait() -> None:
    jobs = [Arrival(0, 10, name) for name in ("gold", "tin") for _ in range(400)]
    outcome = simulate(jobs, Rules(1, {"gold": 3}))
    begun = Counter(job.partition for job, start in zip(jobs, outcome.starts_ms, strict=True) if start is not None and start < 4_000)
    assert abs(begun["gold"] - 300) <= 2


def test_flood_delays_another_partition_by_a_job_or_two() -> None:
    jobs = [Arrival(0, 10, "flood") for _ in range(2_000)] + [Arrival(5_000, 10, "quiet")]
    assert waits(jobs, simulate(jobs, Rules(1)))[-1] <= 20


def test_rate_spreads_the_starts() -> None:
    jobs = [Arrival(0, 1, rate_class="r") for _ in range(20)]
    outcome = simulate(jobs, Rules(50, rates={"r": Rate(10, 1_000, 5)}))
    assert sorted(round(start or 0) for start in outcome.starts_ms) == [0] * 5 + [100 * n for n in range(1, 16)]


def test_paused_class_lets_nothing_begin() -> None:
    jobs = [Arrival(0, 1, rate_class="r"), Arrival(5, 1)]
    assert simulate(jobs, Rules(1, rates={"r": Rate(0, 1, 9)})).starts_ms == [None, 5]


def test_limit_of_nothing_lets_nothing_begin() -> None:
    assert simulate([Arrival(0, 1, job_type="t")], Rules(1, limits={"t": 0})).starts_ms == [None]


def test_ten_thousand_jobs_in_a_thousand_partitions_are_served_within_the_steps() -> None:
    jobs = [Arrival(n % 97, 5 + n % 7, f"p{n % 1_000}") for n in range(10_000)]
    outcome = simulate(jobs, Rules(16))
    assert None not in outcome.starts_ms
    assert median(waits(jobs, outcome)) > 0
