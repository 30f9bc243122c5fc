-- An error's text is masked once for each death, and that was the dearest part of writing a dead letter: a third of it went into spaces that were replaced by
-- themselves, and into looking for hex where a word is too short. The same texts come of it, so what is stored stays true.
create or replace function tidemill.masked_error(message text) returns text
language sql immutable parallel safe
return left(btrim(
    regexp_replace(
    regexp_replace(
    regexp_replace(
    regexp_replace(
    regexp_replace(
    regexp_replace(
    regexp_replace(left(message, 1000),
        '(?<!\w)(''[^'']*''|"[^"]*"|`[^`]*`)(?!\w)', '<text>', 'g'),
        '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', '<uuid>', 'gi'),
        '\m(?:0[xX][0-9a-fA-F]+|(?=[0-9a-fA-F]{8})(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]+)\M', '<hex>', 'g'),
        '\d+(?:[.,:/_-]\d+)*', '<n>', 'g'),
        '(<(?:text|uuid|hex|n)>)(?:, ?\1)+', '\1, …', 'g'),
        '\s{2,}|[^\S ]', ' ', 'g'),
        '[[:cntrl:]]', '', 'g')), 500);
