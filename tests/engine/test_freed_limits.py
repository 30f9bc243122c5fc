"""Places that come free: no run of others in front hides a job from workers that poll, and for how many claims it may (docs/limits.md)."""

from harness.mill import T0, H, Mill, S

KEY = {"concurrency": {"limit": 1, "key": "K"}}


def test_freed_limits_that_yield_nothing_hide_a_job_for_a_bounded_number_of_claims(mill: Mill) -> None:
    """Five thousand of them in front; a claim hears of about two thousand."""
    mill.enqueue_all([KEY] * 2, now=T0)
    running = mill.claim(1, now=T0)[0]
    assert mill.claim(1, now=T0) == []
    mill.conn.execute(
        "insert into tidemill.lane_news (queue_id, limit_keys)"
        " select q.id, array(select n * 1000 + i from generate_series(1, 200) as i) from tidemill.queues q, generate_series(1, 25) as n"
    )
    mill.complete(running, now=T0)
    found = [len(mill.claim(1, now=T0)) for _ in range(4)]
    assert sum(found) == 1
    assert mill.count("lane_news") == 0


def test_more_than_a_hundred_lanes_of_one_limit_that_are_others_hide_the_next_for_six_seconds_at_most(mill: Mill) -> None:
    """A free place wakes a hundred; if all of them stick to another worker, who does not come, the next are looked at by the clock."""
    mill.conn.execute(
        "insert into tidemill.workers (id, project_id, name, max_concurrency, lease_ms, last_seen_at)"
        " values (%s, %s, 'other', 9, 30000, %s)",
        [mill.another().worker_id, mill.project_id, T0],
    )
    other = mill.others[0]
    running = mill.claim_job(mill.new(T0, **KEY), now=T0)
    mill.enqueue_all([{**KEY, "sticky_worker": "other", "partition_key": f"p{i:03}"} for i in range(130)], now=T0)
    ours = mill.new(T0, partition_key="a", **KEY)
    while mill.conn.execute("select count(*) from tidemill.queue_lanes where blocked_by is not null").fetchone() != (131,):
        assert other.claim(500, now=T0) == []
    mill.complete(running, now=T0)
    assert [job.job_id for n in range(3) for job in mill.claim(1, now=T0 + (n + 4.1) * S)] == [ours]


def test_lanes_of_a_paused_queue_hide_those_of_another_under_the_same_limit_for_six_seconds_at_most(mill: Mill) -> None:
    mill.queue("other")
    running = mill.claim_job(mill.new(T0, **KEY), now=T0)
    mill.enqueue_all([{**KEY, "partition_key": f"p{i:03}"} for i in range(130)], now=T0)
    theirs = mill.new(T0, queue="other", **KEY)
    for queue, lanes in (("default", 130), ("other", 131)):
        while mill.conn.execute("select count(*) from tidemill.queue_lanes where blocked_by is not null").fetchone() != (lanes,):
            assert mill.claim(500, queues=(queue,), now=T0) == []
    mill.conn.execute("update tidemill.queues set is_paused = true where name = 'default'")
    mill.complete(running, now=T0)
    assert mill.claim(500, now=T0 + H) == []
    assert [job.job_id for n in range(3) for job in mill.claim(1, queues=("other",), now=T0 + (n + 4.1) * S)] == [theirs]


def test_a_paused_queue_is_told_of_places_for_a_bounded_time_and_finds_them_by_the_clock(mill: Mill) -> None:
    """News that nobody hears would pile up with each completion elsewhere under the same limit."""
    mill.queue("other")
    running = mill.claim_job(mill.new(T0, **KEY), now=T0)
    mill.enqueue_all([KEY] * 3, now=T0)
    theirs = mill.new(T0, queue="other", **KEY)
    assert mill.claim(1, queues=("other",), now=T0) == []
    mill.conn.execute("update tidemill.queues set is_paused = true where name = 'other'")
    unheard = "select count(*) from tidemill.lane_news n join tidemill.queues q on q.id = n.queue_id where q.name = 'other'"
    seen = []
    for is_long_ago in (False, False, True):
        if is_long_ago:
            mill.conn.execute(
                "insert into tidemill.lane_news (id, queue_id, limit_key) overriding system value"
                " select -20001, id, 1 from tidemill.queues where name = 'other'"
            )
        mill.complete(running, now=T0)
        (running,) = mill.claim(1, now=T0)
        seen.append(mill.conn.execute(unheard).fetchone())
    assert seen == [(1,), (2,), (3,)]  # what is next, twice; the row of this test
    mill.conn.execute("delete from tidemill.lane_news")
    mill.conn.execute("update tidemill.queues set is_paused = false where name = 'other'")
    mill.complete(running, now=T0)
    mill.conn.execute("delete from tidemill.lane_news")
    assert [job.job_id for job in mill.claim(1, queues=("other",), now=T0 + 7 * S)] == [theirs]
