package documents

import (
	"regexp"
	"slices"
	"strings"
)

var signingName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,39}$`)

// aws makes the mode for signatures of AWS. Region and service are those of the server where it names them, and else
// values of the connection.
func (m *modes) aws() []modeForm {
	info := m.w.d.root.Get("info")
	service := ""
	for _, text := range []string{info.Get("x-aws-signingName").String(), info.Get("x-serviceName").String()} {
		if signingName.MatchString(text) {
			service = text
			break
		}
	}
	if strings.Contains(m.base.entry, ".execute-api.") {
		service = "execute-api"
	}
	if service == "" {
		service = "${config." + m.awsField("service", "The service in the scope of the signature.", "", "execute-api") + "}"
	}
	region := "${config." + m.awsField("region", "The region in the scope of the signature.", "us-east-1", "") + "}"
	return []modeForm{{Mode: "aws_sigv4", AWS: &awsForm{Region: region, Service: service}}}
}

// awsField returns the name of a field for the scope of signatures: that of the server's variable of this name, if it
// has one.
func (m *modes) awsField(name, words, fallback, example string) string {
	for _, f := range m.fields {
		if f.variable == name || f.key == "aws "+name {
			return f.Name
		}
	}
	own := distinctName(name, func(name string) bool {
		return slices.ContainsFunc(m.fields, func(f configField) bool { return f.Name == name })
	})
	m.fields = append(m.fields, configField{own, fieldForm{Title: title(name), Description: words,
		Pattern: "[a-z0-9][a-z0-9.-]{0,39}", Default: fallback, Example: example, key: "aws " + name}})
	return own
}
