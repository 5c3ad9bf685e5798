package verification

import (
	"encoding/base64"
	"slices"
	"strings"
)

// fieldSignature names the field of a path that holds the signature.
const fieldSignature = "signature"

// compileSignatures checks the places of signatures. A value that is compared as text has no encoding.
func (c *proofCompiler) compileSignatures(kinds sourceKind, encoded bool) []signatureRule {
	list := c.decl.Signature
	field := c.path + "signature"
	c.limit(field, len(list))
	if len(list) == 0 {
		c.problems.add(field, ruleRequired, "needs at least one entry")
	}
	var rules []signatureRule
	for i := range list {
		rules = append(rules, c.compileSignature(at(field, i), &list[i], kinds, encoded))
	}
	return rules
}

func (c *proofCompiler) compileSignature(field string, d *SignatureSource, kinds sourceKind,
	encoded bool) signatureRule {
	rule := signatureRule{prefix: d.Parse.Prefix, encoding: signatureEncoding(d.Encoding)}
	src, wrong := parseSource(d.From, kinds)
	if wrong != "" {
		c.problems.add(field+".from", ruleFormat, "%s", wrong)
	}
	rule.src = src
	switch {
	case !encoded && d.Encoding != "":
		c.problems.add(field+".encoding", ruleCoherent, "has no meaning here: the text itself is compared")
	case !encoded:
	case rule.encoding == encodingHex:
	case rule.encoding == encodingBase64:
		rule.base64 = base64.StdEncoding.Strict()
	case rule.encoding == encodingBase64URL:
		rule.base64 = base64.RawURLEncoding.Strict()
	default:
		c.problems.add(field+".encoding", ruleEnum, "must be hex, base64 or base64url")
	}
	c.compileParse(field+".parse", &d.Parse, &rule)
	if src.kind == sourceItems && d.Parse != (SignatureParse{}) {
		c.problems.add(field+".parse", ruleCoherent, "has no meaning if every item is compared")
	}
	return rule
}

func (c *proofCompiler) compileParse(field string, d *SignatureParse, rule *signatureRule) {
	ways := 0
	if d.Prefix != "" {
		ways++
		c.text(field+".prefix", d.Prefix)
	}
	if kv := d.KV; kv != nil {
		ways++
		rule.kv = kv
		c.separator(field+".kv.pair_sep", kv.PairSep)
		c.separator(field+".kv.kv_sep", kv.KVSep)
		if strings.Contains(kv.PairSep, kv.KVSep) || strings.Contains(kv.KVSep, kv.PairSep) {
			c.problems.add(field+".kv", ruleCoherent, "needs two separators that do not contain each other")
		}
		c.kvKeys(field+".kv.keys", kv)
	}
	if list := d.List; list != nil {
		ways++
		rule.list = list
		c.separator(field+".list.sep", list.Sep)
		if list.Prefix != "" {
			c.text(field+".list.prefix", list.Prefix)
		}
		if list.Sep != "" && strings.Contains(list.Prefix, list.Sep) {
			c.problems.add(field+".list.prefix", ruleCoherent, "must not contain the separator")
		}
	}
	if d.Path != nil {
		ways++
		rule.path = d.Path
		c.compilePath(field+".path", d.Path)
	}
	if ways > 1 {
		c.problems.add(field, ruleCoherent, "can be one of prefix, kv, list and path")
	}
}

func (c *proofCompiler) kvKeys(field string, kv *KVParse) {
	if len(kv.Keys) == 0 || len(kv.Keys) > maxEntries {
		c.problems.add(field, ruleRequired, "needs 1 to %d keys", maxEntries)
	}
	for i, key := range kv.Keys {
		if !printable(key, 64) || strings.Contains(key, kv.KVSep) || strings.Contains(key, kv.PairSep) {
			c.problems.add(at(field, i), ruleFormat, "must be printable ASCII without separators")
		}
	}
}

func (c *proofCompiler) compilePath(field string, d *PathParse) {
	c.separator(field+".sep", d.Sep)
	if d.ListSep != "" {
		c.separator(field+".list_sep", d.ListSep)
		if strings.Contains(d.ListSep, d.Sep) || strings.Contains(d.Sep, d.ListSep) {
			c.problems.add(field, ruleCoherent, "needs two separators that do not contain each other")
		}
	}
	if len(d.Fields) < 2 || len(d.Fields) > 8 {
		c.problems.add(field+".fields", ruleRequired, "needs 2 to 8 entries; for one the whole value is the signature")
	}
	if n := len(slices.DeleteFunc(slices.Clone(d.Fields), func(f string) bool { return f != fieldSignature })); n != 1 {
		c.problems.add(field+".fields", ruleRequired, "needs signature once")
	}
	for i, f := range d.Fields {
		literal, exact := strings.CutPrefix(f, "=")
		switch {
		case f == fieldSignature, f == "*":
		case exact && printable(literal, 64) && !strings.Contains(literal, d.Sep):
		default:
			c.problems.add(at(field+".fields", i), ruleFormat, "must be signature, * or =text without the separator")
		}
	}
}

// separator accepts one to four printable bytes, spaces included.
func (c *checker) separator(field, sep string) {
	if sep == "" || len(sep) > 4 || !printableText(sep) {
		c.problems.add(field, ruleFormat, "must be 1 to 4 bytes of printable ASCII")
	}
}

func (c *checker) text(field, text string) {
	if len(text) > maxLiteral || !printableText(text) {
		c.problems.add(field, ruleFormat, "must be printable ASCII of at most %d bytes", maxLiteral)
	}
}
