package wire

import (
	"testing"
	"time"
)

func TestDurationsAreWrittenAsTheServerDoes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                   "0ms",
		time.Nanosecond:                     "1ms",
		1500 * time.Millisecond:             "1s500ms",
		90 * time.Minute:                    "1h30m",
		72 * time.Hour:                      "3d",
		25*time.Hour + time.Microsecond:     "1d1h1ms",
		-5 * time.Millisecond:               "-5ms",
		20*time.Second + time.Microsecond*0: "20s",
	} {
		if got := DurationText(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
		if parsed, err := ParseDuration(want); d >= 0 && d%time.Millisecond == 0 && (err != nil || parsed != d) {
			t.Errorf("%s: %v %v", want, parsed, err)
		}
	}
}

func TestDurationsAreReadInAllForms(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1.5h": 90 * time.Minute, "PT5M": 5 * time.Minute, "P1DT2H": 26 * time.Hour, "P2W": 336 * time.Hour, "3d": 72 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "P", "5minutes", "1s1h", "-5ms", "1..5h", "400000d"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestInstantsAreRoundedUp(t *testing.T) {
	if got := InstantText(time.Unix(1, 1)); got != "1001" {
		t.Error(got)
	}
}
