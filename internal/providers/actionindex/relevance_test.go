package actionindex_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/fulltext"
	"sallyport/internal/platform/testkit/actioncorpus"
	"sallyport/internal/providers/actionindex"
	"sallyport/internal/providers/actions"
)

// A right action is among the first five for every query of the table.
func TestRightActionsComeFirst(t *testing.T) {
	t.Parallel()
	c := newCorpus(t)
	texts, mean := c.missing(t, actioncorpus.Queries())
	require.Empty(t, texts)
	require.Greater(t, mean, 0.92)
}

// The ranking is not worth only what it was tuned to: of the queries that were held out, one in ten may fail.
func TestHeldOutQueries(t *testing.T) {
	t.Parallel()
	c := newCorpus(t)
	texts, _ := c.missing(t, actioncorpus.HeldOut())
	require.LessOrEqual(t, len(texts), len(actioncorpus.HeldOut())/10)
}

// A query in German, French or Spanish, or in another spelling, finds what the query of the table finds that it
// translates.
func TestTranslatedQueries(t *testing.T) {
	t.Parallel()
	c := newCorpus(t)
	right := map[string]actioncorpus.Query{}
	for _, q := range append(actioncorpus.Queries(), actioncorpus.HeldOut()...) {
		right[q.Text] = q
	}
	for english, translations := range map[string][]string{
		"create an issue": {"Issue erstellen", "crear una incidencia"},
		"send a message":  {"eine Nachricht senden", "envoyer un message", "enviar un mensaje"},
		"refund a payment": {"Zahlung zurückerstatten", "Rückerstattung einer Zahlung",
			"rembourser un paiement", "reembolsar un pago"},
		"list my calendar events": {"Kalender Termine auflisten", "lister les événements du calendrier",
			"listar los eventos del calendario"},
		"upload a file":         {"eine Datei hochladen", "téléverser un fichier", "subir un archivo"},
		"send an email":         {"E-Mail senden", "Send an e-mail", "envoyer un courriel", "enviar un correo"},
		"create a customer":     {"neuen Kunden anlegen", "créer un client", "crear un cliente"},
		"cancel a subscription": {"Abonnement kündigen", "annuler un abonnement", "cancelar una suscripción"},
	} {
		for _, text := range translations {
			q, known := right[english]
			require.True(t, known, english)
			q.Text = text
			rank := c.rankOf(q)
			t.Logf("%2d  %s", rank, text)
			if rank == 0 || rank > 5 {
				t.Errorf("%q: the first right action is at %d", text, rank)
			}
		}
	}
}

// A query that names a provider finds that provider's actions first.
func TestNamedProvidersComeFirst(t *testing.T) {
	t.Parallel()
	c := newCorpus(t)
	for text, provider := range map[string]string{"stripe refund": "stripe", "refund on Stripe": "stripe",
		"slack message": "slack", "github issue": "github", "create an issue in gitlab": "gitlab", "twilio sms": "twilio",
		"zoom meeting": "zoom", "notion page": "notion", "jira issue": "jira", "trello card": "trello",
		"google calendar event": "google-calendar", "asana task": "asana", "dev.to articles": "dev-to",
		"Google-Drive file":      "google-drive",
		"list googledrive files": "google-drive"} {
		hits := c.search(text, 5)
		require.NotEmpty(t, hits, text)
		for i, hit := range hits {
			of := c.members[hit.Segment][hit.Doc]
			require.Equal(t, provider, of.Provider, "%s: %d is %s", text, i+1, of.String())
		}
	}
}

// A name counts as whole words, in any case and with any marks between them, and never as a part of another word.
func TestBoosts(t *testing.T) {
	t.Parallel()
	names := [][]string{{"github", "GitHub"}, {"google-calendar", "Google Calendar"}, {"x", "X"}, {"", "-"},
		nil, {"müller"}}
	for text, want := range map[string][]int{"issues on GITHUB, please": {0}, "githubs": nil, "google calendar/x": {1, 2},
		"GoogleCalendar": {1}, "google, my calendar": nil, "": nil, "MÜLLER": {5}, "\xff\xf0 x": {2},
		strings.Repeat("a ", 1000) + "github": nil} {
		var got []int
		for i, boost := range actionindex.Boosts(text, names) {
			require.GreaterOrEqual(t, boost, float32(1))
			if boost > 1 {
				got = append(got, i)
			}
		}
		require.Equal(t, want, got, text)
	}
}

// corpus has an index for each provider.
type corpus struct {
	segments []*fulltext.Segment
	members  [][]actioncorpus.Action
}

func newCorpus(t *testing.T) (c corpus) {
	t.Helper()
	list, err := actioncorpus.Read()
	require.NoError(t, err)
	for len(list) > 0 {
		first := &list[0]
		builder := actionindex.NewBuilder(first.Provider, first.Display)
		n := 0
		for ; n < len(list) && list[n].Provider == first.Provider; n++ {
			a := &list[n]
			builder.Add(&actions.Action{Name: a.Name, Title: a.Title, Description: a.Description, Tags: a.Tags,
				Deprecated: a.Deprecated, Method: a.Method, Path: a.Path}, &actions.Summary{Name: a.Name})
		}
		index, err := builder.Build()
		require.NoError(t, err)
		c.segments, c.members = append(c.segments, index.Words()), append(c.members, list[:n])
		list = list[n:]
	}
	return c
}

// missing returns the queries without a right action among the first five, and the mean reciprocal rank of all.
func (c corpus) missing(t *testing.T, table []actioncorpus.Query) (texts []string, mean float64) {
	t.Helper()
	sum := 0.0
	for _, q := range table {
		rank := c.rankOf(q)
		if rank > 0 {
			sum += 1 / float64(rank)
		}
		if rank == 0 || rank > 5 {
			texts = append(texts, q.Text)
		}
		t.Logf("%2d  %s", rank, q.Text)
	}
	mean = sum / float64(len(table))
	t.Logf("mean reciprocal rank %.3f", mean)
	return texts, mean
}

// rankOf is the place of the first right action, from 1; 0 if there is none among a hundred.
func (c corpus) rankOf(q actioncorpus.Query) int {
	right := q.Right()
	for i, hit := range c.search(q.Text, 100) {
		if right.MatchString(c.members[hit.Segment][hit.Doc].String()) {
			return i + 1
		}
	}
	return 0
}

// search searches as the catalog does.
func (c corpus) search(text string, limit int) []fulltext.Hit {
	names := make([][]string, len(c.members))
	for i, list := range c.members {
		names[i] = []string{list[0].Provider, list[0].Display}
	}
	return fulltext.NewSearcher().Search(c.segments, text, fulltext.Options{Limit: limit,
		Boosts: actionindex.Boosts(text, names)})
}
