"""SQL on a runner: queries as jobs, and a catalog that outlives the runner.

    query_connector    the connector of a query's job: its properties
    query_properties   the names of these
    planned_statement  the query of a configuration
    hosted_query       the job, in the session that jobs share
    query_configs      the configuration and the name of a job
    catalog_topic      the topic of the stored catalog
    change_lock        one change of the catalog at a time
    exchanged_rows     the rows of a table that was rebuilt, in one transaction
    table_swaps        CREATE OR REPLACE TABLE: a query takes over the table that it has built
    table_views        views of tables, for SELECT of a key
    hosted_sql         sessions, and what their statements change

The active runner alone writes the catalog, in the transactions with which it writes the
configurations of jobs.
"""
