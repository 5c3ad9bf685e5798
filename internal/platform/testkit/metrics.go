package testkit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// Metric returns the value of a metric among the collectors: of a counter or a gauge its value, of a histogram how many
// values it has. labels are names and values in turn, and select one of several. It is 0 for a metric without a value.
func Metric(t require.TestingT, collectors []prometheus.Collector, name string, labels ...string) float64 {
	registry := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		require.NoError(t, registry.Register(c))
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			got := map[string]string{}
			for _, l := range m.GetLabel() {
				got[l.GetName()] = l.GetValue()
			}
			selected := family.GetName() == name
			for i := 0; i < len(labels); i += 2 {
				selected = selected && got[labels[i]] == labels[i+1]
			}
			if selected {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}
