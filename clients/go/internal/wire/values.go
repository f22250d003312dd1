// Package wire has the forms of values in requests and answers.
package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// Milliseconds returns whole milliseconds. Fractions are rounded up, so that a delay is never shorter than requested.
func Milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// durationUnits are the units of durations in texts, in the order in which the server reads them.
var durationUnits = []struct {
	ms     int64
	suffix string
}{{86_400_000, "d"}, {3_600_000, "h"}, {60_000, "m"}, {1000, "s"}, {1, "ms"}}

// DurationText writes a duration as the server does, such as 1h30m. A negative one is written in ms: the server refuses
// it.
func DurationText(d time.Duration) string {
	ms := Milliseconds(d)
	if ms <= 0 {
		return strconv.FormatInt(ms, 10) + "ms"
	}
	var text []byte
	for _, unit := range durationUnits {
		if count := ms / unit.ms; count > 0 {
			text = append(strconv.AppendInt(text, count, 10), unit.suffix...)
			ms %= unit.ms
		}
	}
	return string(text)
}

// InstantText returns an instant in ms since 1970. Fractions of a ms are rounded up.
func InstantText(at time.Time) string {
	ms := at.UnixMilli()
	if at.Nanosecond()%int(time.Millisecond) > 0 {
		ms++
	}
	return strconv.FormatInt(ms, 10)
}

// Duration is a duration that is a text in JSON.
type Duration time.Duration

func (d Duration) MarshalJSON() ([]byte, error) {
	return []byte(`"` + DurationText(time.Duration(d)) + `"`), nil
}

func (d *Duration) UnmarshalJSON(text []byte) error {
	var written string
	if err := json.Unmarshal(text, &written); err != nil {
		return err
	}
	parsed, err := ParseDuration(written)
	*d = Duration(parsed)
	return err
}

// durationPattern is the form of durations: of the server, or of ISO 8601.
var durationPattern = regexp.MustCompile(
	`^(?:P(?:([\d.]+)W)?(?:([\d.]+)D)?(?:T(?:([\d.]+)H)?(?:([\d.]+)M)?(?:([\d.]+)S)?)?|` +
		`(?:([\d.]+)d)?(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s)?(?:([\d.]+)ms)?)$`)

// patternUnits are the units of the groups of durationPattern.
var patternUnits = []time.Duration{
	7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second,
	24 * time.Hour, time.Hour, time.Minute, time.Second, time.Millisecond,
}

// ParseDuration reads a duration in any form that the server knows, such as 3d, 1h30m or PT5M.
func ParseDuration(text string) (time.Duration, error) {
	groups := durationPattern.FindStringSubmatch(text)
	var sum float64
	found := false
	for i := 1; i < len(groups); i++ {
		if groups[i] == "" {
			continue
		}
		count, err := strconv.ParseFloat(groups[i], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration", text)
		}
		sum += count * float64(patternUnits[i-1])
		found = true
	}
	if !found || sum > math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a duration, or a longer one than 292 years", text)
	}
	return time.Duration(sum), nil
}
