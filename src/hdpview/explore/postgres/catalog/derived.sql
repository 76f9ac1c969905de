-- Tables of the catalogue that follow from relations, attributes and the rest, or have one row of defaults.
INSERT INTO "pg_catalog.pg_namespace" (oid, nspname)
VALUES (11, 'pg_catalog'), (2200, 'public'), (13000, 'information_schema');

UPDATE "pg_catalog.pg_type" SET typcollation = 100 WHERE typcategory = 'S';

INSERT INTO "pg_catalog.pg_class" BY NAME
SELECT
    relations.oid, name AS relname, n.oid AS relnamespace, CASE kind WHEN 'r' THEN 2 ELSE 0 END AS relam,
    relations.n AS reltuples, kind AS relkind,
    (SELECT count(*) FROM attributes WHERE attributes.oid = relations.oid) AS relnatts
FROM relations JOIN "pg_catalog.pg_namespace" n ON nspname = schema
ORDER BY relations.oid;

INSERT INTO "pg_catalog.pg_attribute" BY NAME
SELECT
    a.oid AS attrelid, name AS attname, coalesce(t.oid, 25) AS atttypid, coalesce(typlen, -1) AS attlen,
    number AS attnum, coalesce(typstorage, 'x') AS attstorage, is_not_null AS attnotnull,
    coalesce(typcollation, 0) AS attcollation
FROM attributes a LEFT JOIN "pg_catalog.pg_type" t ON typname = a.type
ORDER BY a.oid, number;

DROP TABLE relations;
DROP TABLE attributes;

INSERT INTO "pg_catalog.pg_am" DEFAULT VALUES;
INSERT INTO "pg_catalog.pg_language" DEFAULT VALUES;
INSERT INTO "pg_catalog.pg_collation" DEFAULT VALUES;
INSERT INTO "pg_catalog.pg_tablespace" DEFAULT VALUES;
INSERT INTO "pg_catalog.pg_database" DEFAULT VALUES;
INSERT INTO "pg_catalog.pg_roles" DEFAULT VALUES;
INSERT INTO "pg_catalog.pg_authid" DEFAULT VALUES;
INSERT INTO "pg_catalog.pg_user" DEFAULT VALUES;
INSERT INTO "pg_catalog.pg_shadow" DEFAULT VALUES;
INSERT INTO "information_schema.information_schema_catalog_name" DEFAULT VALUES;
INSERT INTO "information_schema.enabled_roles" DEFAULT VALUES;

-- Names of types as SQL writes them, and every name that a cast to regtype may give.
INSERT INTO type_titles BY NAME
SELECT oid, CASE WHEN typname LIKE '\_%' ESCAPE '\' THEN sql_name(typname[2:]) || '[]' ELSE sql_name(typname) END AS title
FROM "pg_catalog.pg_type";

INSERT INTO type_names BY NAME
SELECT typname AS name, oid FROM "pg_catalog.pg_type"
UNION SELECT title, oid FROM type_titles
UNION SELECT alias, oid FROM "pg_catalog.pg_type" JOIN (
    VALUES ('int', 'int4'), ('float', 'float8'), ('double', 'float8'), ('decimal', 'numeric')
) AS aliases(alias, type_name) ON typname = type_name;

-- Names of relations as PostgreSQL shows them, and every name that a cast to regclass may give.
INSERT INTO relation_titles BY NAME
SELECT c.oid, CASE nspname WHEN 'information_schema' THEN nspname || '.' ELSE '' END || quote_ident(relname) AS title
FROM "pg_catalog.pg_class" c JOIN "pg_catalog.pg_namespace" n ON n.oid = c.relnamespace;

INSERT INTO relation_names BY NAME
SELECT DISTINCT prefix || name AS name, oid
FROM (
    SELECT c.oid, nspname, unnest([relname, quote_ident(relname), '"' || replace(relname, '"', '""') || '"']) AS name
    FROM "pg_catalog.pg_class" c JOIN "pg_catalog.pg_namespace" n ON n.oid = c.relnamespace
) AS named, (
    SELECT nspname AS schema_name, unnest(['', nspname || '.', '"' || nspname || '".']) AS prefix
    FROM "pg_catalog.pg_namespace"
) AS prefixes
WHERE schema_name = nspname AND (prefix <> '' OR nspname <> 'information_schema');

INSERT INTO "information_schema.schemata" BY NAME
SELECT nspname AS schema_name FROM "pg_catalog.pg_namespace";

INSERT INTO "pg_catalog.pg_tables" BY NAME
SELECT nspname AS schemaname, relname AS tablename
FROM "pg_catalog.pg_class" c JOIN "pg_catalog.pg_namespace" n ON n.oid = c.relnamespace
WHERE relkind = 'r'
ORDER BY nspname <> 'public', c.rowid;

INSERT INTO "information_schema.tables" BY NAME
SELECT nspname AS table_schema, relname AS table_name,
    CASE relkind WHEN 'r' THEN 'BASE TABLE' ELSE 'VIEW' END AS table_type
FROM "pg_catalog.pg_class" c JOIN "pg_catalog.pg_namespace" n ON n.oid = c.relnamespace;

INSERT INTO "information_schema.table_privileges" BY NAME
SELECT table_name FROM "information_schema.tables" WHERE table_schema = 'public';

INSERT INTO "information_schema.columns" BY NAME
SELECT
    nspname AS table_schema, relname AS table_name, attname AS column_name, attnum AS ordinal_position,
    attnum AS dtd_identifier, CASE WHEN attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable, typname AS udt_name,
    CASE WHEN typname LIKE '\_%' ESCAPE '\' THEN 'ARRAY' ELSE title END AS data_type,
    CASE typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24
        WHEN 'float8' THEN 53 END AS numeric_precision,
    CASE WHEN typname IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN 2 END AS numeric_precision_radix,
    CASE WHEN typname IN ('int2', 'int4', 'int8') THEN 0 END AS numeric_scale,
    CASE WHEN typname IN ('timestamp', 'timestamptz') THEN 6 WHEN typname = 'date' THEN 0 END AS datetime_precision
FROM "pg_catalog.pg_attribute" a
JOIN "pg_catalog.pg_class" c ON c.oid = a.attrelid
JOIN "pg_catalog.pg_namespace" n ON n.oid = c.relnamespace
JOIN "pg_catalog.pg_type" t ON t.oid = a.atttypid
JOIN type_titles ON type_titles.oid = t.oid
ORDER BY c.rowid, attnum;
