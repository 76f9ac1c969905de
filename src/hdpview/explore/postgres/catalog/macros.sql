-- Functions of PostgreSQL that clients call when they look at the catalogue, as DuckDB macros.
-- getvariable('settings') is a map: the settings of one session, and its number as backend_pid.

-- Relations and their columns, from which derived.sql makes tables
CREATE TABLE relations (oid UINTEGER, name VARCHAR, schema VARCHAR, kind VARCHAR, n DOUBLE);
CREATE TABLE attributes (oid UINTEGER, number SMALLINT, name VARCHAR, type VARCHAR, is_not_null BOOLEAN DEFAULT false);

-- Names as PostgreSQL shows them, and every name that a cast to regclass or regtype may give; see derived.sql
CREATE TABLE relation_titles (oid UINTEGER, title VARCHAR);
CREATE TABLE relation_names (oid UINTEGER, name VARCHAR);
CREATE TABLE type_titles (oid UINTEGER, title VARCHAR);
CREATE TABLE type_names (oid UINTEGER, name VARCHAR);

-- The session
CREATE MACRO version() AS
    'PostgreSQL ' || getvariable('settings')['server_version'] || ' (hdpview: a differentially private view, read-only)';
CREATE MACRO current_database() AS 'hdpview';
CREATE MACRO current_user() AS getvariable('settings')['session_authorization'];
CREATE MACRO current_schema() AS 'public';
CREATE MACRO current_schemas(implicit) AS CASE WHEN implicit THEN ['pg_catalog', 'public'] ELSE ['public'] END;
CREATE MACRO pg_backend_pid() AS CAST(getvariable('settings')['backend_pid'] AS INTEGER);
CREATE MACRO pg_postmaster_start_time() AS now();
CREATE MACRO pg_conf_load_time() AS now();
CREATE MACRO set_config(name, value, is_local) AS CASE
    WHEN name LIKE 'hdpview.%' THEN error('hdpview: Change settings of hdpview by SET.') ELSE value
END;
CREATE MACRO clock_timestamp() AS now();
CREATE MACRO statement_timestamp() AS now();
CREATE MACRO current_setting(name) AS coalesce(
    getvariable('settings')[lower(name)], error('hdpview: Unknown setting ''' || name || '''. SHOW ALL lists the settings.')
), (name, missing_ok) AS getvariable('settings')[lower(name)];

-- Names and numbers of relations, types and schemas
CREATE MACRO quote_ident(name) AS CASE
    WHEN regexp_full_match(name, '[a-z_][a-z0-9_$]*') THEN name ELSE '"' || replace(name, '"', '""') || '"'
END;
CREATE MACRO quote_literal(value) AS '''' || replace(CAST(value AS VARCHAR), '''', '''''') || '''';
CREATE MACRO quote_nullable(value) AS coalesce('''' || replace(CAST(value AS VARCHAR), '''', '''''') || '''', 'NULL');
CREATE MACRO sql_name(type_name) AS CASE type_name
    WHEN 'bool' THEN 'boolean' WHEN 'int2' THEN 'smallint' WHEN 'int4' THEN 'integer' WHEN 'int8' THEN 'bigint'
    WHEN 'float4' THEN 'real' WHEN 'float8' THEN 'double precision' WHEN 'varchar' THEN 'character varying'
    WHEN 'bpchar' THEN 'character' WHEN 'char' THEN '"char"' WHEN 'time' THEN 'time without time zone'
    WHEN 'timestamp' THEN 'timestamp without time zone' WHEN 'timestamptz' THEN 'timestamp with time zone'
    ELSE type_name
END;
CREATE MACRO to_regclass(value) AS coalesce(
    TRY_CAST(value AS UINTEGER), (SELECT oid FROM relation_names WHERE name = CAST(value AS VARCHAR))
);
CREATE MACRO to_regtype(value) AS coalesce(
    TRY_CAST(value AS UINTEGER), (SELECT oid FROM type_names WHERE name = lower(CAST(value AS VARCHAR)))
);
CREATE MACRO to_regnamespace(value) AS coalesce(
    TRY_CAST(value AS UINTEGER),
    (SELECT oid FROM "pg_catalog.pg_namespace" WHERE nspname = CAST(value AS VARCHAR))
);
CREATE MACRO to_regrole(value) AS coalesce(TRY_CAST(value AS UINTEGER), 10);
CREATE MACRO regclass_name(number) AS coalesce(
    (SELECT title FROM relation_titles WHERE oid = number), CAST(number AS VARCHAR)
);
CREATE MACRO regtype_name(number) AS coalesce(
    (SELECT title FROM type_titles WHERE oid = number), CAST(number AS VARCHAR)
);
CREATE MACRO regnamespace_name(number) AS coalesce(
    (SELECT nspname FROM "pg_catalog.pg_namespace" WHERE oid = number), CAST(number AS VARCHAR)
);
CREATE MACRO regrole_name(number) AS CASE WHEN number IS NOT NULL THEN current_user() END;
CREATE MACRO format_type(number, modifier) AS CASE
    WHEN number IS NOT NULL THEN coalesce((SELECT title FROM type_titles WHERE oid = number), '???')
END;
CREATE MACRO pg_get_userbyid(number) AS current_user();
CREATE MACRO obj_description(number) AS (
    SELECT description FROM "pg_catalog.pg_description" WHERE objoid = number AND objsubid = 0
), (number, relation) AS (
    SELECT description FROM "pg_catalog.pg_description" WHERE objoid = number AND objsubid = 0
);
CREATE MACRO col_description(number, place) AS (
    SELECT description FROM "pg_catalog.pg_description" WHERE objoid = number AND objsubid = place
);

-- Visibility and privileges: relations of information_schema have numbers between those of the two others
CREATE MACRO pg_table_is_visible(number) AS number NOT BETWEEN 13000 AND 16383;
CREATE MACRO has_table_privilege(relation, privilege) AS contains(lower(privilege), 'select'),
    (username, relation, privilege) AS contains(lower(privilege), 'select');
CREATE MACRO has_any_column_privilege(relation, privilege) AS contains(lower(privilege), 'select'),
    (username, relation, privilege) AS contains(lower(privilege), 'select');
CREATE MACRO has_column_privilege(relation, place, privilege) AS contains(lower(privilege), 'select'),
    (username, relation, place, privilege) AS contains(lower(privilege), 'select');
CREATE MACRO has_schema_privilege(schema_name, privilege) AS contains(lower(privilege), 'usage'),
    (username, schema_name, privilege) AS contains(lower(privilege), 'usage');
CREATE MACRO has_database_privilege(database, privilege) AS lower(privilege) IN ('connect', 'temporary', 'temp'),
    (username, database, privilege) AS lower(privilege) IN ('connect', 'temporary', 'temp');

-- Arrays, which start at 1
CREATE MACRO array_length(items) AS nullif(len(items), 0), (items, dimension) AS nullif(len(items), 0);
CREATE MACRO array_upper(items, dimension) AS nullif(len(items), 0);
CREATE MACRO array_lower(items, dimension) AS CASE WHEN len(items) > 0 THEN 1 END;
CREATE MACRO cardinality(items) AS len(items);
CREATE MACRO _pg_expandarray(items) AS {'x': CAST(NULL AS SMALLINT), 'n': CAST(NULL AS INTEGER)};
CREATE MACRO generate_subscripts(items, dimension) AS CAST(NULL AS INTEGER);
CREATE MACRO aclexplode(items) AS TABLE
    SELECT CAST(NULL AS UINTEGER) AS grantor, CAST(NULL AS UINTEGER) AS grantee,
        CAST(NULL AS VARCHAR) AS privilege_type, CAST(NULL AS BOOLEAN) AS is_grantable WHERE false;
CREATE MACRO pg_options_to_table(items) AS TABLE
    SELECT CAST(NULL AS VARCHAR) AS option_name, CAST(NULL AS VARCHAR) AS option_value WHERE false;
CREATE MACRO pg_get_keywords() AS TABLE
    SELECT CAST(NULL AS VARCHAR) AS word, CAST(NULL AS VARCHAR) AS catcode, CAST(NULL AS VARCHAR) AS catdesc
    WHERE false;
CREATE MACRO pg_get_publication_tables(name) AS TABLE SELECT CAST(NULL AS UINTEGER) AS relid WHERE false;
CREATE MACRO pg_get_multixact_members(number) AS TABLE
    SELECT CAST(NULL AS UINTEGER) AS xid, CAST(NULL AS VARCHAR) AS mode WHERE false;

-- Texts and JSON
CREATE MACRO pg_size_pretty(size) AS CASE
    WHEN size < 10240 THEN CAST(size AS BIGINT) || ' bytes' ELSE CAST(size // 1024 AS BIGINT) || ' kB'
END;
CREATE MACRO initcap(value) AS array_to_string(
    [upper(word[1]) || lower(word[2:]) FOR word IN string_split(value, ' ')], ' '
);
