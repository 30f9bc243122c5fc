-- Where the server keeps its data (a superuser's question). Parameters: none. Rows: one: the folder.
select current_setting('data_directory')
