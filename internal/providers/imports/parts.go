package imports

import (
	"context"
	"database/sql"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// kind is what a part is a part of.
type kind string

const (
	partDocument kind = "document"
	// partActions are blocks of blockActions actions, one a line.
	partActions kind = "actions"
	partIndex   kind = "index"
)

const (
	// blockActions is how many actions a block has. All of them are read for one.
	blockActions = 16
	// partBytes is the size of a part of a text before it is compressed, and batchBytes that of the parts that one
	// transaction stores: other writers wait for it.
	partBytes, batchBytes = 256 << 10, 256 << 10
	// removedParts is how many parts one transaction deletes.
	removedParts = 16
	// maxDecoded bounds what a part is when it is read: a block of the largest schemas.
	maxDecoded = blockActions * (256 << 10)
)

// packer compresses and reads parts. It is safe for concurrent use.
type packer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newPacker() *packer {
	// The options are constants, and these are the only errors.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("imports: " + err.Error())
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecoded))
	if err != nil {
		panic("imports: " + err.Error())
	}
	return &packer{encoder, decoder}
}

func (p *packer) pack(text []byte) []byte { return p.encoder.EncodeAll(text, nil) }

func (p *packer) unpack(data []byte) ([]byte, error) {
	text, err := p.decoder.DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress a part of an import: %w", err)
	}
	return text, nil
}

// part is one row of the contents of an import.
type part struct {
	number int64
	data   []byte
}

// storePart stores a part. It is for a transaction that is allowed to change the import.
func storePart(ctx context.Context, tx *sql.Tx, m *Import, k kind, p part) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO catalog_import_parts (import_id, environment_id, kind, part, data) "+
		"VALUES ($1, $2, $3, $4, $5)", m.ID, string(m.Environment), string(k), p.number, p.data)
	if err != nil {
		return fmt.Errorf("store a part of an import: %w", err)
	}
	return nil
}

// findPart returns a part of an import of the environment.
func findPart(ctx context.Context, q db.Querier, env id.Environment, importID string, k kind,
	number int64) (data []byte, found bool, err error) {
	found, err = db.Found("a part of an import", q.QueryRowContext(ctx, "SELECT data FROM catalog_import_parts "+
		"WHERE import_id = $1 AND kind = $2 AND part = $3 AND environment_id = $4", importID, string(k), number,
		string(env)).Scan(&data))
	return data, found, err
}

// deleteParts deletes some parts of an import, of any kind but those given, and reports whether there may be more.
func deleteParts(ctx context.Context, tx *sql.Tx, env id.Environment, importID string, kept ...kind) (bool, error) {
	w := new(db.Where).And("import_id = ?", importID).And("environment_id = ?", string(env))
	for _, k := range kept {
		w.And("kind <> ?", string(k))
	}
	query := "DELETE FROM catalog_import_parts WHERE (import_id, kind, part) IN (SELECT import_id, kind, part " +
		"FROM catalog_import_parts " + w.Text() + fmt.Sprintf(" LIMIT %d)", removedParts)
	n, err := db.Affected(tx.ExecContext(ctx, query, w.Args()...))
	if err != nil {
		return false, fmt.Errorf("delete parts of an import: %w", err)
	}
	return n == removedParts, nil
}

// readText writes the text of all parts of a kind to w.
func (s *Service) readText(ctx context.Context, w io.Writer, env id.Environment, importID string, k kind) error {
	for number := int64(0); ; number++ {
		data, found, err := findPart(ctx, s.cfg.DB.Read(), env, importID, k, number)
		if err != nil || !found {
			return err
		}
		piece, err := s.packer.unpack(data)
		if err != nil {
			return err
		}
		if _, err := w.Write(piece); err != nil {
			return fmt.Errorf("read a part of an import: %w", err)
		}
	}
}

// eachPiece calls fn with pieces of what r has, each of them partBytes long but the last. The slice is valid until fn
// returns.
func eachPiece(r io.Reader, fn func(piece []byte) error) error {
	buffer := make([]byte, partBytes)
	for {
		n, err := io.ReadFull(r, buffer)
		if n > 0 {
			if err := fn(buffer[:n]); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return fmt.Errorf("read the document: %w", err)
		}
	}
}
