-- Tables of the catalogue that follow from pg_class, pg_attribute and the rest, or have one row of defaults.
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

INSERT INTO "information_schema.schemata" (schema_name)
SELECT nspname FROM "pg_catalog.pg_namespace";

INSERT INTO "pg_catalog.pg_tables" (schemaname, tablename)
SELECT nspname, relname
FROM "pg_catalog.pg_class" c JOIN "pg_catalog.pg_namespace" n ON n.oid = c.relnamespace
WHERE relkind = 'r'
ORDER BY nspname <> 'public', c.rowid;

INSERT INTO "information_schema.tables" (table_schema, table_name, table_type)
SELECT nspname, relname, CASE relkind WHEN 'r' THEN 'BASE TABLE' ELSE 'VIEW' END
FROM "pg_catalog.pg_class" c JOIN "pg_catalog.pg_namespace" n ON n.oid = c.relnamespace;

INSERT INTO "information_schema.table_privileges" (table_name)
SELECT table_name FROM "information_schema.tables" WHERE table_schema = 'public';

INSERT INTO "information_schema.columns" (
    table_schema, table_name, column_name, ordinal_position, dtd_identifier, is_nullable, udt_name, data_type,
    numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision
)
SELECT
    nspname, relname, attname, attnum, attnum, CASE WHEN attnotnull THEN 'NO' ELSE 'YES' END, typname,
    CASE WHEN typname LIKE '\_%' THEN 'ARRAY' ELSE format_type(t.oid) END,
    CASE typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24
        WHEN 'float8' THEN 53 END,
    CASE WHEN typname IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN 2 END,
    CASE WHEN typname IN ('int2', 'int4', 'int8') THEN 0 END,
    CASE WHEN typname IN ('timestamp', 'timestamptz') THEN 6 WHEN typname = 'date' THEN 0 END
FROM "pg_catalog.pg_attribute" a
JOIN "pg_catalog.pg_class" c ON c.oid = a.attrelid
JOIN "pg_catalog.pg_namespace" n ON n.oid = c.relnamespace
JOIN "pg_catalog.pg_type" t ON t.oid = a.atttypid
ORDER BY c.rowid, attnum;
