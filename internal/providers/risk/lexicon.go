package risk

import (
	"slices"
	"strings"
)

// class is what a word says about a call. Lists and reference pages are made of the classes that classes returns.
type class struct {
	title, effect string
	words         []string
}

// in returns the first of the words that is in a class. Nouns are found in the plural too, and as pairs of words, such
// as “access key” for “accesskey”.
func (c *class) in(words []string) (string, bool) {
	for i, w := range words {
		if c.has(w) {
			return w, true
		}
		if i+1 < len(words) && slices.Contains(c.words, w+singular(words[i+1])) {
			return w + " " + words[i+1], true
		}
	}
	return "", false
}

// has reports whether a noun is in a class, also in the plural.
func (c *class) has(noun string) bool { return c.is(noun) || c.is(singular(noun)) }

// is reports whether a verb is in a class. Plurals are nouns.
func (c *class) is(verb string) bool { return slices.Contains(c.words, verb) }

// singular cuts the ending of a plural, as far as the words of the classes need it.
func singular(w string) string {
	switch {
	case strings.HasSuffix(w, "ies"):
		return strings.TrimSuffix(w, "ies") + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"):
		return strings.TrimSuffix(w, "es")
	case strings.HasSuffix(w, "ss"):
		return w
	default:
		return strings.TrimSuffix(w, "s")
	}
}

// list splits words at blanks. Words that the rules of prose replace are given on their own.
func list(text string, more ...string) []string { return append(strings.Fields(text), more...) }

// The classes of verbs.
var (
	reads = class{"Read", "`low`, also by POST", list(`get list search query find fetch show describe lookup count
		validate preview precheck estimate calculate compute compare download retrieve browse exists suggest autocomplete
		analyze detect explain aggregate parse render translate geocode diff lint dryrun inspect`)}
	maybeReads = class{"Read, where the rest of the call agrees", "`low`, unless a path such as `/tasks/{id}/check` " +
		"could mean a change, or the call concerns money or code", list(`check view read filter evaluate head`)}
	destroys = class{"Destroy", "`high`, `delete`, `destructive`", list(`delete del remove rm destroy purge erase drop
		wipe clear truncate revoke terminate expire void uninstall deregister unregister empty flush kill discard redact
		invalidate trash obliterate deprovision`)}
	overwrites = class{"Overwrite", "`high`, `update`, `destructive`", list(`reset overwrite rollback restore`)}
	disables   = class{"Take away, or cannot be undone", "`high`, `update`", list(`disable deactivate suspend cancel
		close archive block ban kick lock merge stop abort reject decline unsubscribe restrict detach disconnect
		disassociate unlink evict quarantine unpublish decommission shutdown reboot`)}
	runs = class{"Run", "`high`, `runs_code`; `critical` where the call names code", list(`execute exec eval run rerun
		invoke dispatch trigger deploy redeploy`)}
	issues = class{"Issue", "`medium`, `create`; `critical` where the call names a secret", list(`exchange issue rotate
		regenerate mint authorize`)}
	sends = class{"Reach people", "`high`, `notifies_people`", list(`send resend broadcast tweet notify invite remind
		announce blast dial`)}
	creates = class{"Create", "`medium`, `create`", list(`create add insert new register upload import make generate
		clone copy fork duplicate start open request initiate begin build schedule enqueue post report simulate fire`)}
	updates = class{"Change", "`medium`, `update`", list(`update edit modify change set put patch replace rename move
		assign unassign enable activate reactivate mark unmark attach associate link join leave pin unpin star unstar follow
		unfollow like unlike vote upvote approve accept confirm complete finish finalize resume pause snooze unsnooze toggle
		configure adjust reorder sync refresh convert apply reopen promote demote unarchive unlock unblock undelete mute
		unmute subscribe publish end fail reverse save upsert increment decrement extend renew acknowledge ack dismiss claim
		release tag untag switch swap submit grant transfer capture pay withdraw process`, "settle")}
)

// The classes of words that are about a verb.
var (
	alsoNouns = class{"Verbs that are nouns too", "no change by GET, unless a name begins with them",
		list(`archive block lock stop close merge restore flush empty import export copy start open update set post report
		request schedule build issue clone fork run trigger capture transfer pay like vote follow star pin tag link
		switch mark purchase charge refund withdraw deposit swap exchange complete claim trash execute invite
		drop reset release patch put change move end view filter head check new make`)}
	manner = class{"Words before a verb", "the verb is the next word", list(`bulk batch mass multi all async force
		partial hard soft re try do`)}
	bulks = class{"Many", "`bulk`; `critical` with DELETE and verbs that destroy", list(`batch bulk all many multiple
		deleteall bulkdelete batchdelete`)}
	pretends = class{"Pretend", "money, code and people are not touched", list(`simulate mock`)}
	marks    = class{"Marks", "DELETE of a mark is `medium` and not `destructive`; a change of one is nothing more",
		list(`reaction star starred like favorite favourite bookmark upvote follow following watch`)}
	texts = class{"Texts and pictures", "a change of one is nothing more", list(`name description title icon photo
		avatar color note comment image picture metadata display`)}
)

// The classes of nouns.
var (
	money = class{"Money", "`critical`, `moves_money`; `high` where it is only in the way to what the call concerns",
		list(`payment payout refund transfer charge withdrawal disbursement purchase checkout topup payroll remittance
		settlement wire ach donation reversal cashout`)}
	paid = class{"Things that are paid for", "`high`, `moves_money` when created; `critical` with a verb for money",
		list(`invoice subscription order transaction balance wallet card fund trade loan credit deposit debit dispute
		chargeback quote billing`)}
	pays = class{"Verbs for money", "`critical`, `moves_money` with what is paid for", list(`pay capture refund charge
		transfer withdraw deposit reverse void finalize accept execute cancel submit approve confirm disburse
		purchase buy sell send close`, "settle")}
	accounts = class{"Accounts", "with `transfer` money, and no ownership", list(`account bank fund balance wallet
		money cash asset`)}
	settings = class{"About money, but no movement", "`high` after a word for money", list(`method profile recipient
		configuration config setting domain portal term template category rule type option originator webhook consent
		token terminal location reader`)}
	beneath = class{"Of a source, not of a shop", "no money directly after `checkout`", list(`key branch revision
		repository`)}
	running = class{"In progress", "no money and no ownership with `transfer`, which continues it elsewhere",
		list(`playback player call chat conversation stream traffic`)}
	wrapping = class{"Calls in the body", "`unknown`, `opaque` at the end of a path that is sent by " +
		"another method than GET",
		list(`graphql gql rpc jsonrpc`)}
	watched = class{"Subscriptions without a price", "a subscription that is not paid for", list(`notification thread
		webhook event topic watch newsletter alert hook feed push`)}
	access = class{"Access", "`high`, `changes_access`", list(`member membership collaborator permission role grant acl
		policy access owner admin administrator team invitation invite saml sso scim oauth oidc openid mfa totp sharing
		share group restriction protection privilege scope consent whitelist blacklist allowlist denylist blocklist
		blockedlist visibility
		private public boundary firewall checkoutkey`)}
	signIns = class{"Sign-in of a user", "`high`, `changes_access` where it is changed for a user or an account",
		list(`email phone username login status state`)}
	holders   = class{"Users", "`high`, `changes_access` when created", list(`user subuser operator`)}
	passwords = class{"Passwords", "`critical`, `changes_access` when set", list(`password passwd passphrase pin`)}
	relations = class{"Memberships", "DELETE of one is not `destructive`", list(`member membership
		collaborator invitation reviewer assignee follower`)}
	owners  = class{"Ownership", "`critical`, `changes_access`", list(`owner ownership takeover`)}
	secrets = class{"Secrets", "`high`, `changes_access`; `high`, `returns_secrets` when read", list(`token secret
		password passwd credential passphrase apikey privatekey pat webhooksecret signingkey accesskey sshkey deploykey
		gpgkey ephemeralkey authkey serviceaccountkey licensekey connectionstring listkeys listsecrets`)}
	handedOut = class{"Secrets that are handed out", "`critical`, `returns_secrets` when created", list(`token
		credential apikey privatekey pat accesskey sshkey deploykey ephemeralkey authkey serviceaccountkey loginlink`)}
	stored = class{"Stored for others to trust", "`high`", list(`certificate webhook hook callback forwarding`)}
	codes  = class{"Code", "`high`, `runs_code` when created, changed or run", list(`workflow pipeline command shell
		sql job function lambda script deployment`)}
	announced = class{"Read by people", "`high`, `notifies_people` when created", list(`message comment reply post
		mention chat discussion notification invitation invite email mail sms mms fax call tweet announcement
		registrant panelist attendee invitee guest`)}
	people = class{"People", "`returns_pii`", list(`user contact customer employee patient person people member profile
		lead subscriber attendee candidate applicant guest account address phone email identity guardian student`)}
)

// nominal are verbs for nouns that name them: a POST to /cancellation cancels.
func nominal(noun string) string {
	ending := []struct{ noun, verb string }{
		{"cancellation", "cancel"}, {"cancelation", "cancel"}, {"deletion", "delete"}, {"removal", "remove"},
		{"revocation", "revoke"}, {"termination", "terminate"}, {"reversal", "reverse"}, {"deactivation", "deactivate"},
		{"activation", "activate"}, {"suspension", "suspend"}, {"restoration", "restore"}, {"invocation", "invoke"},
		{"execution", "execute"}, {"approval", "approve"}, {"rejection", "reject"}, {"dispatch", "dispatch"},
	}
	for _, e := range ending {
		if singular(noun) == e.noun || noun == "dispatches" && e.noun == "dispatch" {
			return e.verb
		}
	}
	return ""
}

// classes returns every class, in the order of the reference page.
func classes() []*class {
	return []*class{&reads, &maybeReads, &creates, &updates, &issues, &destroys, &overwrites, &disables, &runs, &sends,
		&alsoNouns, &manner, &bulks, &pretends, &money, &paid, &pays, &accounts, &settings, &beneath, &running, &wrapping,
		&watched, &access, &signIns,
		&holders, &passwords, &relations,
		&owners,
		&secrets, &handedOut, &stored, &codes, &announced, &marks, &texts, &people}
}
