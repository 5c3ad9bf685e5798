-- +goose Up
-- Headers that all requests to an imported provider have, as JSON, null for none; and the path with which its
-- connections are tested, empty for none.
ALTER TABLE catalog_imports ADD COLUMN headers text NOT NULL DEFAULT 'null';
ALTER TABLE catalog_imports ADD COLUMN probe text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE catalog_imports DROP COLUMN probe;
ALTER TABLE catalog_imports DROP COLUMN headers;
