package client

import "strings"

const (
	nameBytesMax = 255
	upperHex     = "0123456789ABCDEF"
)

// escape percent-encodes all bytes but letters, digits, - and _, so that a text is the same in a path and in a query, and
// no text is taken for a part of a path such as "..".
func escape(text string) string {
	var escaped strings.Builder
	escaped.Grow(len(text))
	for i := range len(text) {
		if b := text[i]; isNameByte(b) {
			escaped.WriteByte(b)
		} else {
			escaped.WriteByte('%')
			escaped.WriteByte(upperHex[b>>4])
			escaped.WriteByte(upperHex[b&15])
		}
	}
	return escaped.String()
}

// query appends parameters to a path. Its arguments are names and values in turn.
func query(path string, pairs ...string) string {
	separator := byte('?')
	if strings.IndexByte(path, '?') >= 0 {
		separator = '&'
	}
	var built strings.Builder
	built.WriteString(path)
	for i := 0; i+1 < len(pairs); i += 2 {
		built.WriteByte(separator)
		separator = '&'
		built.WriteString(pairs[i])
		built.WriteByte('=')
		built.WriteString(escape(pairs[i+1]))
	}
	return built.String()
}

func isNameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_'
}

// isName reports whether a text is a name of a namespace or queue.
func isName(text string) bool {
	for i := range len(text) {
		if !isNameByte(text[i]) {
			return false
		}
	}
	return text != "" && len(text) <= nameBytesMax
}

func isVisibleASCII(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
