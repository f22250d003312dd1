//! Finds the end of a request header.

use memchr::memchr;

/// Incremental search for the empty line that ends a header. Accepts the line ends that hyper accepts: LF or CRLF,
/// and empty lines before the first line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum HeaderEnd {
    /// Only line ends so far.
    #[default]
    BeforeFirstLine,
    InLine,
    BehindLine,
    Found,
}

impl HeaderEnd {
    /// Continues with these bytes. Returns how many of them belong to the header.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            at += 1;
            *self = match (*self, byte) {
                (Self::Found, _) => return at - 1,
                (Self::BeforeFirstLine, b'\r' | b'\n') => Self::BeforeFirstLine,
                (Self::BehindLine, b'\r') => Self::BehindLine,
                (Self::BehindLine, b'\n') => Self::Found,
                (Self::InLine, b'\n') => Self::BehindLine,
                _ => {
                    // Most bytes are inside of a line, and this search looks at many at a time.
                    at += memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at);
                    Self::InLine
                }
            };
        }
        bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_end_is_found_however_the_bytes_are_split(
            before in "[\r\n]{0,3}", lines in prop::collection::vec("[a-z: ]{1,9}", 1..5), line_end in "\r?\n", body in "[a-z\r\n]{0,20}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            let header = format!("{before}{}{line_end}{line_end}", lines.join(&line_end));
            let all = format!("{header}{body}");
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(all.len())).collect();
            cuts.extend([0, all.len()]);
            cuts.sort_unstable();
            let mut end = HeaderEnd::default();
            let pieces = cuts.windows(2).map(|cut| &all.as_bytes()[cut[0]..cut[1]]);
            let counted: usize = pieces.map(|piece| end.feed(piece)).sum();
            prop_assert_eq!(counted, header.len());
            prop_assert_eq!(end, HeaderEnd::Found);
        }

        #[test]
        fn a_header_without_an_end_counts_as_a_whole(header in "[a-z][a-z: ]{0,20}(\r\n[a-z]{1,5}){0,4}(\r\n)?") {
            let mut end = HeaderEnd::default();
            prop_assert_eq!(end.feed(header.as_bytes()), header.len());
            prop_assert_ne!(end, HeaderEnd::Found);
        }
    }
}
