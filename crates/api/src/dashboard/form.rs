//! Forms: the proof that a form was sent from a page of this dashboard, and how it is read.
//!
//! The admin port refuses requests of pages of other sites (`crates/daemon/src/same_origin.rs`). Besides, a form has
//! the random text of a cookie that other sites neither know nor can make the browser send.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use maud::{Markup, html};
use rand::RngExt;
use rand::distr::Alphanumeric;
use subtle::ConstantTimeEq;

use super::error::PageError;
use crate::http::body::BodyReader;

const COOKIE: &str = "tidegate_form";
const FIELD: &str = "form_token";
const TOKEN_CHARACTERS: usize = 32;
/// Parts of a filter in which spaces count: without them it would match more jobs.
const WITH_SPACES: [&str; 3] = ["key_prefix", "attribute", "error_contains"];
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The text that a cookie and all forms of a browser have in common.
#[derive(Debug, Clone)]
pub(super) struct FormToken {
    text: String,
    /// Whether the browser does not have the cookie yet.
    is_new: bool,
}

impl FormToken {
    /// The token in the cookie, or a new token.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let cookies = headers.get_all(header::COOKIE).into_iter();
        let pairs = cookies
            .filter_map(|cookies| cookies.to_str().ok())
            .flat_map(|cookies| cookies.split(';'));
        let known = pairs
            .filter_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
            .find(|text| is_token(text));
        match known {
            Some(text) => Self {
                text: text.to_owned(),
                is_new: false,
            },
            None => Self {
                text: rand::rng()
                    .sample_iter(Alphanumeric)
                    .take(TOKEN_CHARACTERS)
                    .map(char::from)
                    .collect(),
                is_new: true,
            },
        }
    }

    /// The header that sets the cookie, if the browser does not have it.
    pub(super) fn cookie(&self) -> Option<HeaderValue> {
        let cookie = format!(
            "{COOKIE}={}; Path=/ui; HttpOnly; SameSite=Strict",
            self.text
        );
        HeaderValue::from_str(&cookie).ok().filter(|_| self.is_new)
    }

    /// The hidden field of a form.
    pub(super) fn field(&self) -> Markup {
        html! { input type="hidden" name=(FIELD) value=(self.text); }
    }

    fn is_of(&self, form: &SubmittedForm) -> bool {
        let sent = form.get(FIELD).unwrap_or_default();
        !self.is_new && bool::from(self.text.as_bytes().ct_eq(sent.as_bytes()))
    }
}

fn is_token(text: &str) -> bool {
    text.len() == TOKEN_CHARACTERS && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The fields of a form that were filled in.
#[derive(Debug)]
pub(super) struct SubmittedForm(Vec<(String, String)>);

impl SubmittedForm {
    /// Reads a form that was sent from a page of this dashboard.
    ///
    /// # Errors
    /// It was sent from elsewhere, it is too long, or it did not arrive in time.
    pub(super) async fn read(
        reader: &BodyReader,
        token: &FormToken,
        body: Body,
    ) -> Result<Self, PageError> {
        let read = reader.up_to(BODY_BYTES_MAX).read(body).await;
        let read = read.map_err(|_| {
            PageError::Invalid("The form is too long, or did not arrive in time.".to_owned())
        })?;
        let form = Self(filled_in(&read.bytes));
        match token.is_of(&form) {
            true => Ok(form),
            false => Err(PageError::Forged),
        }
    }

    /// The value of a field, if it was filled in.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A name among these that several fields have.
    pub(super) fn repeated<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        let count = |name: &str| self.0.iter().filter(|(other, _)| other == name).count();
        names.iter().copied().find(|name| count(name) > 1)
    }

    /// The fields with these names.
    pub(super) fn only(&self, names: &[&str]) -> Vec<(String, String)> {
        let named = |pair: &&(String, String)| names.contains(&pair.0.as_str());
        self.0.iter().filter(named).cloned().collect()
    }
}

/// The pairs of a form or a query that have a value, without the spaces around it unless they count.
pub(super) fn filled_in(encoded: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(encoded)
        .map(|(name, value)| match WITH_SPACES.contains(&&*name) {
            true => (name.into_owned(), value.into_owned()),
            false => (name.into_owned(), value.trim().to_owned()),
        })
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(cookies: &str) -> FormToken {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, cookies.parse().unwrap());
        FormToken::of(&headers)
    }

    #[test]
    fn a_form_needs_the_text_of_the_cookie() {
        let text = "a".repeat(TOKEN_CHARACTERS);
        let known = token(&format!("other=1; {COOKIE}={text}"));
        assert!(known.cookie().is_none());
        let form = |text: &str| SubmittedForm(filled_in(format!("{FIELD}={text}").as_bytes()));
        assert!(known.is_of(&form(&text)));
        assert!(!known.is_of(&form(&text.replace('a', "b"))));
        assert!(!known.is_of(&form("")));
        for cookies in [
            "",
            "other=1",
            &format!("{COOKIE}=short"),
            &format!("{COOKIE}={}", "<".repeat(32)),
        ] {
            let new = token(cookies);
            assert!(new.cookie().is_some(), "{cookies}");
            // Without a cookie no text is right, not even the token that would be set.
            assert!(!new.is_of(&form(&new.text)), "{cookies}");
        }
    }

    #[test]
    fn empty_fields_are_left_out() {
        let pairs = filled_in(b"a=&b=+x%26+&c");
        assert_eq!(pairs, [("b".to_owned(), "x&".to_owned())]);
        // A filter that is only a space is none for all jobs.
        let pairs = filled_in(b"key_prefix=+&error_contains=a+&attribute=");
        let names = [("key_prefix", " "), ("error_contains", "a ")];
        let names = names.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pairs, names);
    }
}
