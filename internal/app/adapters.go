package app

import (
	"context"
	"database/sql"

	"sallyport/internal/identity"
	"sallyport/internal/identity/mails"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
)

// lifetimes is events.Retention: environments belong to identity.
type lifetimes struct{ identity *identity.Service }

// Lifetimes returns how long the environment keeps payloads and events.
func (l lifetimes) Lifetimes(ctx context.Context, env id.Environment) (events.Lifetimes, error) {
	payload, event, err := l.identity.Lifetimes(ctx, env)
	return events.Lifetimes{Payload: payload, Event: event}, err
}

// mailer hands the mails of people to the queue.
type mailer struct{ *mails.Service }

// Post implements identity.Mailer.
func (m mailer) Post(ctx context.Context, tx *sql.Tx, l identity.Letter) error {
	return m.Queue(ctx, tx, mails.Mail{Kind: l.Kind, About: l.About, To: l.To, Subject: l.Subject, Text: l.Text,
		Expires: l.Expires})
}

// Recall implements identity.Mailer.
func (m mailer) Recall(ctx context.Context, tx *sql.Tx, about string) error {
	return m.Drop(ctx, tx, about)
}
