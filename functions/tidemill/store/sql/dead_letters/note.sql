-- Note: leaves a word on a dead letter. Parameters: id uuid; note text. Rows: none. Locks: dead_letter_queue.
update tidemill.dead_letter_queue d set note = %(note)s::text where d.id = %(id)s::uuid
