package fulltext_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// query is what a person or a model types, and which actions are right. Right is a regular expression, without regard
// to case, for "provider name METHOD path".
type query struct{ text, right string }

// queries were written before the ranking was tuned. Do not change one so that it passes.
func queries() []query {
	return []query{
		{"create an issue", `POST \S*/issues?$`},
		{"send a message",
			`POST \S*(chat\.postMessage|/messages/send|/sendMessage|(chat|conversations)/\S*messages|/messages\.json)$`},
		{"refund a payment", `POST (/v\d)?(/payments?/\{\w+\}|/charges/\{\w+\}|/\{location_id\})?/refunds?$`},
		{"list my calendar events", `GET \S*calendars?(/\{\w+\})?/events$`},
		{"github create issue", `^github issues_create `},
		{"slack send message", `^slack chat_post_message `},
		{"create a pull request", `POST \S*/(pulls|pullrequests|pull-requests|merge_requests)$`},
		{"merge pull request", `(POST|PUT) \S*/(pulls|pullrequests)/\{\w+\}/merge$`},
		{"comment on an issue", `POST \S*issues?/\{\w+\}/(comments?|notes)$`},
		{"list repositories",
			`GET (/user|/users/\{\w+\}|/orgs/\{\w+\}|/installation)?(/repos|/repositories|/repositories/\{workspace\})$`},
		{"upload a file", `(files_upload|post_files_content|drive_files_create|upload_file|create_file|post_files) POST`},
		{"share a google drive file", `^google-drive drive_permissions_create `},
		{"send an email", `POST (\S*/(mail/send|messages/send|messages/send\.json)|/emails?)$`},
		{"create a customer", `POST \S*/customers$`},
		{"cancel a subscription", `(DELETE \S*/subscriptions/\{\w+\}|POST \S*/subscriptions/\{\w+\}/cancel)$`},
		{"create an invoice", `(POST|PUT) \S*/invoices$`},
		{"get account balance", `GET \S*/balance(\.json)?$`},
		{"schedule a zoom meeting", `^zoom meeting_create `},
		{"list zoom recordings", `^zoom (recordings_list|recording_get|get_account_cloud_recording) `},
		{"create a droplet", `^digitalocean droplets_create `},
		{"delete droplet", `^digitalocean droplets_destroy `},
		{"add a dns record", `POST \S*domains/\{\w+\}/records$`},
		{"make a phone call", `^twilio create_call POST`},
		{"buy a phone number", `^twilio create_incoming_phone_number(_local|_mobile|_toll_free)? `},
		{"create a trello card", `^trello \S+ POST (/lists/\{idList\})?/cards$`},
		{"move a card to another list", `^trello \S+ (PUT /cards/\{idCard\}(/idList)?|POST \S+/moveAllCards)$`},
		{"create a task", `POST \S*/tasks$`},
		{"add a subtask", `POST \S*/subtasks$`},
		{"assign an issue to a user", `(jira assign_issue|github issues_add_assignees) `},
		{"transition a jira issue", `^jira do_transition `},
		{"search issues", `(jira search_for_issues_using_jql(_post)?|github search_issues_and_pull_requests) `},
		{"search tweets", `GET /2/tweets/search/(all|recent)$`},
		{"post a tweet", `POST /2/tweets$`},
		{"create a playlist", `POST \S*/playlists$`},
		{"add songs to a playlist", `POST \S*(/playlists/\{\w+\}/tracks|/playlistItems)$`},
		{"pause playback", `^spotify pause_a_users_playback `},
		{"query notion database", `^notion query_a_database `},
		{"append rows to a google sheet", `^google-sheets sheets_spreadsheets_values_append `},
		{"create a spreadsheet", `POST \S*/spreadsheets$`},
		{"create a new contact", `(POST|PUT) ((/marketing|/v\d+)?/contacts|\S*people:createContact)$`},
		{"invite users to a channel", `^slack conversations_invite `},
		{"create a slack channel", `^slack conversations_create `},
		{"get channel history", `^slack conversations_history `},
		{"who is on call", `^victorops get_\S*oncall_(current|schedule) `},
		{"acknowledge an incident", `^victorops patch_\S*_ack `},
		{"add a subscriber to a mailing list", `^mailchimp post_lists_id_members `},
		{"generate an image", `^openai create_image `},
		{"transcribe audio", `^openai create_transcription `},
		{"deploy a project", `POST \S*/deployments$`},
		{"trigger a workflow", `^github actions_create_workflow_dispatch `},
		{"upload a video", `^youtube youtube_videos_insert `},
		{"add an emoji reaction to a message", `^slack reactions_add `},
		{"create a folder", `POST \S*/folders$`},
		{"delete a file", `(DELETE \S*/files/\{\w+\}|POST \S*files\.delete)$`},
		{"list emails in my inbox", `^gmail gmail_users_messages_list `},
		{"retry a failed build", `POST \S*(build|pipeline)\S*/retry$`},
		{"star a repository", `^github activity_star_repo`},
		{"capture a payment", `POST \S*/(payment_intents|charges)/\{\w+\}/capture$|^square complete_payment `},
		{"find user by email", `^slack users_lookup_by_email |^jira find_users `},
		{"create webhook", `POST \S*/(web)?hooks$`},
	}
}

// right compiles the expression of a query.
func (q query) compile() *regexp.Regexp { return regexp.MustCompile("(?i)" + q.right) }

// The table of queries names actions that are in the corpus, and few of them: a query for which many actions are right
// would prove nothing.
func TestQueriesNameActions(t *testing.T) {
	t.Parallel()
	corpus := readCorpus(t)
	for _, q := range queries() {
		right, count := q.compile(), 0
		for i := range corpus {
			if right.MatchString(corpus[i].String()) {
				count++
			}
		}
		require.Positive(t, count, q.text)
		require.LessOrEqual(t, count, 16, q.text)
		require.Equal(t, strings.ToLower(q.text), q.text)
	}
}
