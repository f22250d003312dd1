//! The stored form of an API key: a JSON object in a field of a hash. The field is the id of the key.
//!
//! Each field of the object is required, and others are refused: a restriction that this release does not know must
//! not be ignored.

use std::borrow::Cow;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use tidegate_core::{NamespaceGrant, Scope, Scopes};

use crate::table::Damaged;

/// The length of a SHA-256 hash, in bytes.
const HASH_BYTES: usize = 32;

/// The stored entry of an API key, without its id.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// The SHA-256 hash of the secret.
    pub secret_hash: SecretHash,
    /// The pool whose queues the key gives access to.
    pub pool: Box<str>,
    /// The namespaces that the key gives access to.
    pub namespaces: NamespaceGrant,
    /// The scopes of the key; at least one.
    pub scopes: Scopes,
    /// A text for operators.
    pub description: Box<str>,
    /// When the key was created, in ms since 1970 on the clock of the process that created it.
    pub created_at_ms: u64,
    /// From when on the key is refused, in ms since 1970; `None` = never.
    pub expires_at_ms: Option<u64>,
}

/// The SHA-256 hash of the secret of an API key. It has no `==`, so that it is compared in constant time.
#[derive(Clone, Copy)]
pub struct SecretHash(pub [u8; HASH_BYTES]);

/// The fields of the object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFields<'a> {
    /// 64 hexadecimal digits.
    secret_sha256: Cow<'a, str>,
    pool: Cow<'a, str>,
    /// A name, or `*`.
    namespace: Cow<'a, str>,
    scopes: Vec<Cow<'a, str>>,
    description: Cow<'a, str>,
    created_at_ms: u64,
    /// 0 = never.
    expires_at_ms: u64,
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretHash(…)")
    }
}

impl SecretHash {
    fn to_text(self) -> String {
        let mut text = String::with_capacity(2 * HASH_BYTES);
        for byte in self.0 {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    fn from_text(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 2 * HASH_BYTES || !text.bytes().all(is_digit) {
            return None;
        }
        let mut hash = [0; HASH_BYTES];
        for (byte, at) in hash.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl ApiKey {
    /// Whether the key has expired at this time, in ms since 1970.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|end_ms| end_ms <= now_ms)
    }

    /// The stored form.
    pub(super) fn to_text(&self) -> String {
        let fields = StoredFields {
            secret_sha256: self.secret_hash.to_text().into(),
            pool: (&*self.pool).into(),
            namespace: self.namespaces.as_str().into(),
            scopes: self
                .scopes
                .iter()
                .map(|scope| scope.name().into())
                .collect(),
            description: (&*self.description).into(),
            created_at_ms: self.created_at_ms,
            expires_at_ms: self.expires_at_ms.unwrap_or(0),
        };
        // Texts and numbers can always be written as JSON.
        serde_json::to_string(&fields).unwrap_or_default()
    }

    /// Reads the stored form. A key that cannot be read must be refused.
    pub(super) fn read(stored: &[u8]) -> Result<Self, Damaged> {
        Self::from_text(stored).map_err(|reason| Damaged {
            reason,
            text: String::from_utf8_lossy(stored).into_owned(),
        })
    }

    /// The error says what is wrong with the stored form.
    fn from_text(text: &[u8]) -> Result<Self, String> {
        let fields: StoredFields<'_> =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let secret_hash = SecretHash::from_text(&fields.secret_sha256)
            .ok_or("secret_sha256 is not 64 hexadecimal digits")?;
        let namespaces = NamespaceGrant::try_from(&*fields.namespace);
        let namespaces = namespaces.map_err(|error| format!("namespace: {error}"))?;
        let scopes = fields.scopes.iter().map(|name| Scope::of_name(name));
        let scopes: Option<Scopes> = scopes.collect();
        let scopes = scopes.ok_or("scopes has an unknown name")?;
        if scopes.is_empty() {
            return Err("scopes is empty".to_owned());
        }
        Ok(Self {
            secret_hash,
            pool: fields.pool.into(),
            namespaces,
            scopes,
            description: fields.description.into(),
            created_at_ms: fields.created_at_ms,
            expires_at_ms: Some(fields.expires_at_ms).filter(|end_ms| *end_ms > 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = concat!(
        r#"{"secret_sha256":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff","#,
        r#""pool":"a pool","namespace":"shop","scopes":["publish","read"],"#,
        r#""description":"a \"b\" ü\n","created_at_ms":1,"expires_at_ms":2}"#
    );

    fn key() -> ApiKey {
        ApiKey::from_text(TEXT.as_bytes()).unwrap()
    }

    #[test]
    fn the_stored_form_is_pinned_and_is_read_unchanged() {
        let key = key();
        assert_eq!(key.secret_hash.0[..3], [0, 1, 2]);
        assert_eq!(key.secret_hash.0[31], 255);
        assert_eq!((&*key.pool, key.namespaces.as_str()), ("a pool", "shop"));
        assert_eq!(key.scopes.to_string(), "publish,read");
        assert_eq!(&*key.description, "a \"b\" ü\n");
        assert_eq!((key.created_at_ms, key.expires_at_ms), (1, Some(2)));
        assert_eq!(key.to_text(), TEXT);
        let lasting = ApiKey {
            namespaces: NamespaceGrant::All,
            scopes: Scopes::all(),
            expires_at_ms: None,
            ..key
        };
        let again = ApiKey::from_text(lasting.to_text().as_bytes()).unwrap();
        assert_eq!(again.to_text(), lasting.to_text());
        assert_eq!(again.expires_at_ms, None);
        assert_eq!(again.namespaces, NamespaceGrant::All);
        assert!(!format!("{again:?}").contains("[0, 1, 2"));
    }

    #[test]
    fn a_key_expires_at_its_time() {
        let key = key();
        assert!(!key.is_expired(1));
        assert!(key.is_expired(2));
        let lasting = ApiKey {
            expires_at_ms: None,
            ..key
        };
        assert!(!lasting.is_expired(u64::MAX));
    }

    #[test]
    fn a_damaged_entry_is_no_key() {
        let cut = (0..TEXT.len()).filter_map(|length| TEXT.get(..length));
        let cut = cut.map(ToOwned::to_owned);
        let changed = [
            (r#""pool":"a pool","#, ""),
            (r#","expires_at_ms":2"#, ""),
            (r#""expires_at_ms":2"#, r#""expires_at_ms":-1"#),
            (r#""created_at_ms":1"#, r#""created_at_ms":"1""#),
            (r#""namespace":"shop""#, r#""namespace":"s hop""#),
            (r#""namespace":"shop""#, r#""namespace":"""#),
            (r#"["publish","read"]"#, "[]"),
            (r#"["publish","read"]"#, r#"["publish","write"]"#),
            (r#"["publish","read"]"#, r#""publish""#),
            ("1eff", "1ef"),
            ("1eff", "1efF"),
            ("1eff", "1ef+"),
            (
                r#""created_at_ms":1"#,
                r#""created_at_ms":1,"only_from":"10.0.0.0/8""#,
            ),
            (
                r#""created_at_ms":1"#,
                r#""created_at_ms":1,"created_at_ms":1"#,
            ),
        ];
        let changed = changed.map(|(old, new)| TEXT.replace(old, new));
        let whole = ["null", "[]", "\u{0}", "tg_x"].map(ToOwned::to_owned);
        for text in cut.chain(changed).chain(whole) {
            assert_ne!(text, TEXT);
            let damaged = ApiKey::read(text.as_bytes()).expect_err(&text);
            assert!(!damaged.reason.is_empty());
            assert_eq!(damaged.text, text);
        }
    }
}
