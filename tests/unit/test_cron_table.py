"""Every line of the cron table, by its id."""

from itertools import pairwise

import pytest

from tidemill.domain.cron import CronError, parse
from unit.cron_table import ROWS, Row

LEGAL = [row for row in ROWS if row.fires]
REFUSED = [row for row in ROWS if not row.fires]
SKIPPING = [row for row in ROWS if row.skipping]


def by_id(row: Row) -> str:
    return row.id


def test_the_table_is_whole() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS) == 116
    assert (len(LEGAL), len(REFUSED), len(SKIPPING)) == (78, 38, 6)


@pytest.mark.parametrize("row", LEGAL, ids=by_id)
def test_legal_expression_fires_at_the_tabled_instants(row: Row) -> None:
    cron = parse(row.expression, row.zone, after=row.after)
    assert cron.upcoming(row.after, len(row.fires)) == row.fires


@pytest.mark.parametrize("row", LEGAL, ids=by_id)
def test_next_previous_and_between_agree_on_the_tabled_instants(row: Row) -> None:
    cron = parse(row.expression, row.zone)
    walked = [row.after]
    for _ in row.fires:
        found = cron.next_after(walked[-1])
        assert found is not None
        walked.append(found)
    assert walked[1:] == row.fires
    for earlier, later in pairwise(row.fires):
        assert cron.previous_before(later) == earlier
    assert cron.between(row.after, row.fires[-1], 1000) == row.fires


@pytest.mark.parametrize("row", SKIPPING, ids=by_id)
def test_skip_rule_fires_at_the_tabled_instants(row: Row) -> None:
    cron = parse(row.expression, row.zone, on_gap="skip")
    assert cron.upcoming(row.after, len(row.skipping)) == row.skipping


@pytest.mark.parametrize("row", REFUSED, ids=by_id)
def test_illegal_expression_is_refused_with_reason_and_hint(row: Row) -> None:
    with pytest.raises(CronError) as caught:
        parse(row.expression, row.zone)
    error = caught.value
    assert error.code == "validation_error"
    assert error.faults[0].loc == ("cron",)
    assert error.reason
    assert error.hint
    assert str(error).isascii()
    assert len(str(error)) < 250
