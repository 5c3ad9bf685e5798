package fulltext_test

func heldOut() []query { return nil }
