package fulltext_test

// heldOut are queries that were written after the ranking was tuned. It is not tuned to them: what they find says what
// it is worth for others.
func heldOut() []query {
	return []query{
		{"archive a channel", `^slack (admin_)?conversations_archive `},
		{"list unpaid invoices", `GET \S*/invoices$`},
		{"get a user's profile", `^slack users_profile_get |^spotify get_(current_)?users_profile |GET \S*/users?/\{\w+\}$`},
		{"delete a repository", `DELETE (/repos/\{\w+\}/\{\w+\}|/repositories/\{\w+\}/\{\w+\}|/v3/projects/\{\w+\})$`},
		{"fork a repo", `POST \S*/(forks|fork/\{\w+\})$`},
		{"create a new branch", `POST \S*/(branches|git/refs)$`},
		{"list my droplets", `^digitalocean droplets_list `},
		{"what meetings do i have", `^zoom meetings `},
		{"skip to the next song", `^spotify skip_users_playback_to_next_track `},
		{"create a coupon", `POST \S*/coupons$`},
		{"send a photo to a chat", `^telegram post_send_photo `},
		{"add a comment to a trello card", `^trello add_cards_actions_comments_by_id_card `},
		{"log time on a jira issue", `^jira add_worklog `},
		{"delete a calendar event", `^google-calendar calendar_events_delete `},
		{"list sms messages", `^twilio list_message `},
		{"create embeddings", `^openai create_embedding `},
		{"add a collaborator to a repo", `^github repos_add_collaborator |^gitlab post_v3_projects_id_members `},
		{"publish an article", `^dev-to (create|update)_article `},
		{"list overdue tasks", `^asana get_tasks |^google-tasks tasks_tasks_list |^asana get_tasks_for_\w+ `},
	}
}
