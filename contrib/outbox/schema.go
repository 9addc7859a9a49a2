package outbox

// Schema creates the tables, where they are missing, in the first schema of the search_path. Run it once, in a
// migration. It is several statements, for Exec without arguments.
//
// The database user of Insert needs INSERT on belay_outbox. The user of Run also needs SELECT and DELETE on
// it, and SELECT and UPDATE on belay_outbox_claim. Every pair of tables is an outbox of its own.
const Schema = `
CREATE TABLE IF NOT EXISTS belay_outbox (
	id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	inserted_at timestamptz NOT NULL DEFAULT now(),
	due_at      timestamptz,    -- NULL: now
	payload     text NOT NULL   -- the job
);

-- One row: the claim that is being pushed. The scope is drawn once, so that no two databases share one.
CREATE TABLE IF NOT EXISTS belay_outbox_claim (
	only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	scope    text   NOT NULL DEFAULT gen_random_uuid()::text,
	number   bigint NOT NULL DEFAULT 0,
	mark     text   NOT NULL DEFAULT '',
	ids      bigint[] NOT NULL DEFAULT '{}'
);
INSERT INTO belay_outbox_claim DEFAULT VALUES ON CONFLICT DO NOTHING;
`
