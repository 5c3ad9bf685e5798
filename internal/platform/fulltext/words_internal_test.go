package fulltext

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func wordsOf(text string, singles bool) []string {
	var list []string
	for _, w := range newSplitter().split(text, 1000, singles) {
		list = append(list, string(w.text))
	}
	return list
}

// Identifiers and texts become the words that people search for.
func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"issues_create":                "issues create",
		"chat.postMessage":             "chat post message postmessage",
		"getHTTPResponseCode":          "get http response code",
		"OAuth2Token":                  "oauth2 token oauth2token",
		"v2 s3 2FA k8s base64":         "v2 s3 2fa k8s base64",
		"GitHub iPhone":                "git hub github iphone",
		"on-call e-mail a-b-c":         "on call oncall e mail email a b c",
		"the customer's card, don’t":   "the customer card don",
		"-x- x- -":                     "x x",
		"Café Ångström ΣΊΣΥΦΟΣ straße": "cafe angstrom σισυφοσ strasse",
		"ｆｕｌｌ　ｗｉｄｔｈ ﬁle ①":             "full width file 1",
		"Ｉ İstanbul":                   "i istanbul",
		"событие Ёлка":                 "событие елка",
		"עִבְרִית العَرَبِيَّة":        "עברית العربية",
		"हिन्दी में":                   "हिन्दी में",
		"a\x00b\xff\xfec\u202e":        "a b c",
		"":                             "",
		"!!! --- '''":                  "",
	} {
		require.Equal(t, want, strings.Join(wordsOf(text, false), " "), text)
	}
}

// Scripts without spaces are found by pairs of characters, and by one.
func TestWordsWithoutSpaces(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"创建", "建问", "问题"}, wordsOf("创建问题", false))
	require.Equal(t, []string{"创", "建", "创建", "问", "建问"}, wordsOf("创建问", true))
	require.Equal(t, []string{"問"}, wordsOf("問", false))
	require.Equal(t, []string{"カレ", "レン", "ンダ", "ダー", "api"}, wordsOf("カレンダーAPI", false))
	require.Equal(t, []string{"메시", "시지"}, wordsOf("메시지", false))
	require.Equal(t, wordsOf("ｶﾞ", false), wordsOf("ガ", false))
}

// The forms of a word have one stem, and other words keep theirs.
func TestStems(t *testing.T) {
	t.Parallel()
	for _, forms := range []string{
		"create creates created creating", "message messages", "list lists listed listing", "delete deletes deleted deleting",
		"query queries queried querying", "get gets getting", "plan plans planned planning", "rate rates rated rating",
		"address addresses", "box boxes", "status statuses", "branch branches", "alias aliases", "cancel cancels cancelled",
		"issue issues issued", "install installs installed installing", "add adds added adding", "movie movies",
		"database databases", "reply replies replied replying", "code codes coded coding", "fix fixes fixed fixing",
	} {
		words := strings.Fields(forms)
		for _, w := range words {
			require.Equal(t, string(stem([]byte(words[0]))), string(stem([]byte(w))), w)
		}
	}
	for _, w := range []string{"sms", "dns", "bus", "sing", "string", "need", "red", "oauth2", "события", "as"} {
		require.Equal(t, w, string(stem([]byte(w))))
	}
	different := []string{"post", "project", "product", "user", "use", "organization", "organ", "test", "text"}
	stems := map[string]bool{}
	for _, w := range different {
		stems[string(stem([]byte(w)))] = true
	}
	require.Len(t, stems, len(different))
}

// One error is any that fingers make, and not two.
func TestOneError(t *testing.T) {
	t.Parallel()
	for _, pair := range []string{"mesage message", "messsage message", "messaqe message", "mesasge message", "a ab",
		"событе событие", "é è", "ab ba", "событие событие"} {
		a, b, _ := strings.Cut(pair, " ")
		require.Equal(t, a != b, oneError([]byte(a), []byte(b)), pair)
		require.Equal(t, a != b, oneError([]byte(b), []byte(a)), pair)
	}
	for _, pair := range []string{"msage message", "massige message", "abc cab", "abcd badc"} {
		a, b, _ := strings.Cut(pair, " ")
		require.False(t, oneError([]byte(a), []byte(b)), pair)
	}
}

// Synonyms are words that a query can have, with a weight below that of the word itself.
func TestSynonyms(t *testing.T) {
	t.Parallel()
	table := readSynonyms()
	require.Contains(t, table, "creat")
	for word, others := range table {
		require.False(t, stopWord([]byte(word)), word)
		for _, other := range others {
			require.NotEqual(t, word, other.stem)
			require.NotEmpty(t, other.stem)
			require.Greater(t, other.weight, float32(0), "%s %s", word, other.stem)
			require.Less(t, other.weight, float32(1), "%s %s", word, other.stem)
		}
	}
	for line := range strings.Lines(strings.TrimSpace(synonymLines)) {
		require.Regexp(t, `^[a-z0-9]+:( [a-z0-9]+ 0\.\d{1,2})+\n?$`, line)
	}
}

// Words of any text are short, not empty, without capitals, and the same when they are split again.
func FuzzWords(f *testing.F) {
	for _, text := range []string{"getHTTPResponse", "on-call", "创建a", "\xff\xfe", "e\u0301\u0301", "ǅ ﷺ", "a-b'sX"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, w := range newSplitter().split(text, 50, true) {
			require.NotEmpty(t, w.text)
			require.LessOrEqual(t, len(w.text), maxWord)
			require.True(t, utf8.Valid(w.text))
			require.LessOrEqual(t, len(stem(slices.Clone(w.text))), maxWord)
		}
	})
}
