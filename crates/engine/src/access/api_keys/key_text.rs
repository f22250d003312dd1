//! The text of an API key, `tg_KEYID_SECRET`, and the hash of its secret.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tidegate_core::{API_KEY_ID_BYTES, ApiKeyId};
use tidegate_store::SecretHash;

use crate::access::random_text::random_text;

/// The begin of each key.
const PREFIX: &str = "tg_";
/// The length of a secret: 134 random bits.
const SECRET_BYTES: usize = 26;

/// The text of an API key, in its parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyText<'a> {
    /// The id, which is stored and shown.
    pub(crate) id: ApiKeyId,
    secret: &'a str,
}

/// Hides the secret.
impl fmt::Debug for KeyText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PREFIX}{}_…", self.id)
    }
}

impl<'a> KeyText<'a> {
    /// Whether a text is meant as an API key, valid or not.
    pub(crate) fn has_prefix(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Reads a key; `None` if a part is missing, has another length, or other characters than a key can have.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX)?;
        let (id, secret) = rest.split_at_checked(API_KEY_ID_BYTES)?;
        let secret = secret.strip_prefix('_')?;
        let is_allowed = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        let is_whole = secret.len() == SECRET_BYTES && secret.bytes().all(is_allowed);
        let id = ApiKeyId::try_from(id).ok()?;
        is_whole.then_some(Self { id, secret })
    }

    /// The hash of the secret. One round without a salt: secrets cannot be guessed.
    pub(crate) fn secret_hash(self) -> SecretHash {
        SecretHash(Sha256::digest(self.secret.as_bytes()).into())
    }

    /// Whether this is the key whose hash is stored. Takes as long for each wrong secret, so that the time reveals no
    /// part of the hash.
    pub(crate) fn matches(self, stored: SecretHash) -> bool {
        self.secret_hash().0.ct_eq(&stored.0).into()
    }
}

/// Generates the text of a key. The id has 62 random bits, the secret 134.
pub(crate) fn generate_key() -> String {
    generate_key_with_id(&generate_key_id())
}

/// Generates the id of a key: 62 random bits.
pub fn generate_key_id() -> String {
    random_text(API_KEY_ID_BYTES)
}

/// Generates the text of a key with this id. The secret has 134 random bits.
pub(crate) fn generate_key_with_id(id: &str) -> String {
    format!("{PREFIX}{id}_{}", random_text(SECRET_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "tg_0123456789AB_ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    #[test]
    fn a_generated_key_is_read_and_no_two_are_equal() {
        let text = generate_key();
        assert_eq!(text.len(), 42);
        let key = KeyText::parse(&text).unwrap();
        assert!(text.contains(key.id.as_str()));
        let other = generate_key();
        let other = KeyText::parse(&other).unwrap();
        assert_ne!(key.id, other.id);
        assert_ne!(key.secret, other.secret);
        assert!(!key.matches(other.secret_hash()));
        assert!(key.matches(key.secret_hash()));
    }

    #[test]
    fn the_hash_is_sha_256_of_the_secret_alone() {
        let key = KeyText::parse(KEY).unwrap();
        // printf ABCDEFGHIJKLMNOPQRSTUVWXYZ | sha256sum
        let expected = "d6ec6898de87ddac6e5b3611708a7aa1c2d298293349cc1a6c299a1db7149d38";
        let hash: String = (key.secret_hash().0.iter())
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hash, expected);
        assert!(!format!("{key:?}").contains("ABCDEFGH"));
    }

    #[test]
    fn only_a_whole_key_is_read() {
        for length in 0..KEY.len() {
            assert_eq!(KeyText::parse(&KEY[..length]), None, "{length}");
        }
        for bad in [
            format!("{KEY}Z"),
            format!(" {KEY}"),
            format!("{KEY}\n"),
            KEY.to_lowercase(),
            KEY.replace("tg_", "TG_"),
            KEY.replace("AB_", "AB-"),
            KEY.replace("AB_", "A_B"),
            KEY.replace('Z', "z"),
            KEY.replace('Z', "_"),
            KEY.replace("9AB", "9é"),
            KEY.replace("YZ", "é"),
            KEY.replace("89AB_", "8_"),
        ] {
            assert_eq!(KeyText::parse(&bad), None, "{bad:?}");
        }
        assert!(KeyText::has_prefix("tg_"));
        assert!(!KeyText::has_prefix("TG_0123456789AB"));
        assert!(!KeyText::has_prefix(""));
    }
}
