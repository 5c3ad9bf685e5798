package archtest_test

// notRewritten lists the places whose texts do not follow the glossary yet, as beginnings of paths. It only shrinks.
func notRewritten() []string {
	return []string{}
}
