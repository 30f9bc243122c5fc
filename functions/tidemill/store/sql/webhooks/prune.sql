-- Removes what is over: kinds of things that have not happened for `forgotten_secs`, calls that ended `kept_secs` ago, secrets that have ended.
-- Parameters: forgotten_secs, kept_secs integer; limit integer (of each kind); now timestamptz or null. Rows: one: how many.
-- Locks: webhook_news, webhook_deliveries, webhook_secrets (skip locked).
with clock as materialized (
    select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), news as (
    delete from tidemill.webhook_news n
    where n.ctid = any(array(
        select i.ctid from tidemill.webhook_news i
        where i.waiting = 0 and i.due_at < (select c.now from clock c) - make_interval(secs => %(forgotten_secs)s::integer)
        order by i.due_at limit %(limit)s::integer for update skip locked))
    returning 1
), calls as (
    delete from tidemill.webhook_deliveries d
    where d.ctid = any(array(
        select i.ctid from tidemill.webhook_deliveries i
        where i.ended_at < (select c.now from clock c) - make_interval(secs => %(kept_secs)s::integer)
        order by i.ended_at limit %(limit)s::integer for update skip locked))
    returning 1
), secrets as (
    delete from tidemill.webhook_secrets s
    where s.id = any(array(
        select i.id from tidemill.webhook_secrets i
        where i.ends_at < (select c.now from clock c)
        order by i.ends_at limit %(limit)s::integer for update skip locked))
    returning 1
)
select (select count(*) from news) + (select count(*) from calls) + (select count(*) from secrets)
