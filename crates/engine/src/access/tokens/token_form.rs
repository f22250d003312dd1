//! The stored form of tokens.

use std::borrow::Cow;
use std::fmt::Write;

use sha2::{Digest, Sha256};

const PREFIX: &str = "sha256-";
const HASH_BYTES: usize = 32;

/// The form in which tokens are stored (`hash_tokens`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenForm {
    /// As plain text, which the admin port can list.
    Plain,
    /// As SHA-256 hashes, which are not valid as tokens.
    Hashed,
}

impl TokenForm {
    /// The stored form of a token that a client presents. A token that looks like a stored hash is hashed in both
    /// forms, so that a hash that was read in Redis never gives access.
    pub fn stored(self, token: &str) -> Cow<'_, str> {
        match self {
            Self::Plain if !token.starts_with(PREFIX) => Cow::Borrowed(token),
            _ => Cow::Owned(hash(token)),
        }
    }

    /// The stored form of a token that an administrator names, by the token itself or its listed form.
    pub fn stored_form_of_named(self, token: &str) -> Cow<'_, str> {
        if is_hash(token) {
            Cow::Borrowed(token)
        } else {
            self.stored(token)
        }
    }
}

/// One round of SHA-256, without a salt: generated tokens have 134 random bits and cannot be guessed.
fn hash(token: &str) -> String {
    let mut text = String::with_capacity(PREFIX.len() + 2 * HASH_BYTES);
    text.push_str(PREFIX);
    for byte in Sha256::digest(token.as_bytes()) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn is_hash(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|rest| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        rest.len() == 2 * HASH_BYTES && rest.bytes().all(is_digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_hash_gives_access_in_neither_form() {
        // FIPS 180-2, appendix B.1.
        let abc = "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenForm::Hashed.stored("abc"), abc);
        assert_eq!(TokenForm::Plain.stored("abc"), "abc");
        for form in [TokenForm::Plain, TokenForm::Hashed] {
            assert_ne!(form.stored(abc), abc);
            assert_eq!(form.stored_form_of_named(abc), abc);
        }
        assert_eq!(TokenForm::Hashed.stored_form_of_named("abc"), abc);
        assert_eq!(TokenForm::Plain.stored_form_of_named("abc"), "abc");
        let upper = abc.to_uppercase();
        assert_ne!(TokenForm::Plain.stored_form_of_named(&upper), abc);
    }
}
