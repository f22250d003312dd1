//! Query strings, parsed as Go parses them, as clients of lmstfy expect.
//!
//! * The first occurrence of a parameter is used; names are case-sensitive; unknown parameters are ignored.
//! * A pair with a `;` or with invalid percent-encoding is ignored, so that the default applies.
//! * A number consists of ASCII digits only. An empty value is an error, an absent parameter is not.

use std::borrow::Cow;
use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

/// The parameter of this name is not a number in its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadNumber(pub(crate) &'static str);

/// The query of a request, undecoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query<'a> {
    text: Cow<'a, str>,
    /// Whether it has no escape and no `;`, like nearly all queries.
    is_plain: bool,
}

impl<S: Sync> FromRequestParts<S> for Query<'static> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Query::new(parts.uri.query().unwrap_or_default().to_owned()))
    }
}

impl<'a> Query<'a> {
    /// Parses a query, or a form body, which has the same syntax.
    pub(crate) fn new(text: impl Into<Cow<'a, str>>) -> Self {
        let text = text.into();
        // All bytes are looked at, which is compiled to vector instructions.
        let is_special = |found, byte| found | matches!(byte, b';' | b'%' | b'+');
        let is_plain = !text.bytes().fold(false, is_special);
        Self { text, is_plain }
    }

    /// The value of a parameter, if present. Invalid UTF-8 is replaced.
    pub(crate) fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut pairs = pieces(&self.text, b'&');
        if self.is_plain {
            return pairs.find_map(|pair| match pair.strip_prefix(name)? {
                "" => Some(Cow::Borrowed("")),
                rest => rest.strip_prefix('=').map(Cow::Borrowed),
            });
        }
        pairs.find_map(|pair| {
            if pair.as_bytes().contains(&b';') {
                return None;
            }
            let equals = pair.bytes().position(|byte| byte == b'=');
            let (key, value) = equals.map_or((pair, ""), |at| (&pair[..at], &pair[at + 1..]));
            match is_plain(key) {
                true if key != name => return None,
                false if unescape(key, Plus::IsSpace)? != name.as_bytes() => return None,
                _ => {}
            }
            if is_plain(value) {
                return Some(Cow::Borrowed(value));
            }
            let value = unescape(value, Plus::IsSpace)?;
            Some(Cow::Owned(String::from_utf8_lossy(&value).into_owned()))
        })
    }

    /// The value of a numeric parameter, or the default if it is absent.
    ///
    /// # Errors
    /// [`BadNumber`] if the value is not a number in the range of `T`.
    pub(crate) fn number<T: TryFrom<u64>>(
        &self,
        name: &'static str,
        default: T,
    ) -> Result<T, BadNumber> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => number(&text).ok_or(BadNumber(name)),
        }
    }
}

/// The parts of a text between ASCII separators. `str::split` calls a search function for each part, which costs more
/// than to look at the few bytes of a path or a query.
pub(crate) fn pieces(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    debug_assert!(separator.is_ascii(), "others are parts of characters");
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.bytes().position(|byte| byte == separator);
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// Whether a text has no escapes.
fn is_plain(text: &str) -> bool {
    !text.bytes().any(|byte| byte == b'%' || byte == b'+')
}

fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    // `parse` would accept a sign.
    let is_unsigned = text.bytes().all(|byte| byte.is_ascii_digit());
    let value: u64 = text.parse().ok().filter(|_| is_unsigned)?;
    T::try_from(value).ok()
}

/// The meaning of a `+`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    /// A space, as in queries and forms.
    IsSpace,
    /// Itself, as in paths.
    IsPlus,
}

/// Decodes percent-encoding; `None` if it is invalid.
pub(crate) fn unescape(text: &str, plus: Plus) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => hex(bytes.next()?)? * 16 + hex(bytes.next()?)?,
            b'+' if plus == Plus::IsSpace => b' ',
            other => other,
        });
    }
    Some(plain)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn expect(query: &str, value: Option<&str>) {
        assert_eq!(Query::new(query).get("a").as_deref(), value, "{query:?}");
    }

    #[test]
    fn the_first_valid_occurrence_of_the_exact_name_is_used() {
        expect("", None);
        expect("a=1", Some("1"));
        expect("b=2&a=1&a=3", Some("1"));
        expect("A=1", None);
        expect("a", Some(""));
        expect("a=", Some(""));
        expect("a=x=y", Some("x=y"));
        expect("%61=1", Some("1"));
        expect("a=%zz&a=2", Some("2"));
        expect("a=%4", None);
        expect("a=1;a=2", None);
        expect("a=1;b&a=3", Some("3"));
        expect("%zz=1&a=2", Some("2"));
        expect("a=x+y%2B", Some("x y+"));
        expect("&&a=1", Some("1"));
        expect("a=%ff", Some("\u{fffd}"));
    }

    #[track_caller]
    fn expect_number(text: &str, value: Option<u16>) {
        let query = Query::new(format!("n={text}"));
        assert_eq!(query.number::<u16>("n", 7).ok(), value, "{text:?}");
    }

    #[test]
    fn numbers_are_digits_in_range_and_the_default_if_absent() {
        assert_eq!(Query::new("").number::<u16>("n", 7).ok(), Some(7));
        expect_number("0", Some(0));
        expect_number("010", Some(10));
        expect_number("0000000000000000000000000065535", Some(65535));
        expect_number("65536", None);
        for bad in [
            "",
            "%2B1",
            "-1",
            "1.5",
            "0x1",
            "1_0",
            "+1",
            "1+",
            "99999999999999999999",
            "١",
        ] {
            expect_number(bad, None);
        }
    }

    #[test]
    fn paths_keep_their_plus() {
        assert_eq!(
            unescape("a+b%20c", Plus::IsPlus).as_deref(),
            Some(&b"a+b c"[..])
        );
        assert_eq!(unescape("%", Plus::IsPlus), None);
        assert_eq!(unescape("%+1", Plus::IsPlus), None);
    }

    /// Encodes bytes, each as itself or as `%XX`.
    fn escaped(bytes: &[u8], plain: &[bool]) -> String {
        let mut plain = plain.iter().cycle();
        let one = |byte: &u8| match plain.next() {
            Some(true) if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        bytes.iter().map(one).collect()
    }

    proptest! {
        #[test]
        fn escaped_names_and_values_are_read_unchanged(
            before in "[^=]{0,20}",
            name in "\\PC{1,10}",
            value: Vec<u8>,
            plain in prop::collection::vec(any::<bool>(), 1..5),
        ) {
            let pair = format!("{}={}", escaped(name.as_bytes(), &plain), escaped(&value, &plain));
            let expected = String::from_utf8_lossy(&value).into_owned();
            let query = Query::new(pair.as_str());
            let found = query.get(&name).map(Cow::into_owned);
            prop_assert_eq!(found.as_ref(), Some(&expected));
            let more = format!("{before};&{pair}&{name}=other");
            let query = Query::new(more);
            let found = query.get(&name).map(Cow::into_owned);
            prop_assert_eq!(found.as_ref(), Some(&expected));
            let slow = unescape(&escaped(&value, &[false]), Plus::IsPlus);
            prop_assert_eq!(slow, Some(value));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in any::<String>(), name in any::<String>()) {
            let query = Query::new(text.as_str());
            let _ = query.get(&name);
            for plus in [Plus::IsPlus, Plus::IsSpace] {
                let plain = unescape(&text, plus);
                prop_assert!(plain.is_none_or(|plain| plain.len() <= text.len()));
            }
        }

        #[test]
        fn numbers_are_parsed_as_digits_only(text in "[0-9]{0,25}|[+-]?[0-9]{1,3}|\\PC{0,5}") {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let expected = text.parse::<u64>().ok().filter(|_| digits);
            prop_assert_eq!(number::<u64>(&text), expected);
            let short = expected.and_then(|value| u16::try_from(value).ok());
            prop_assert_eq!(number::<u16>(&text), short);
        }
    }
}
